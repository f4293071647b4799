"""Regulators choose the number of replicas of one stage at every control step: the port, ``spar`` and ``two-sided``."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import ceil, floor

from compositions.settings import Checked, ranged
from compositions.wording import figure


@dataclass(frozen=True, slots=True)
class RegulatorSettings(Checked):
    """Settings of both regulators; the defaults are the best for ``spar`` (Vogel et al. 2018, section 5).

    Raises: SettingsError if one is out of range.
    """

    target_ms: float = ranged(180.0, 1e-3, 3.6e6, "ms")
    """Latency that is not to be exceeded; 180 and 200 ms in the paper's figures."""
    scaling_factor: int = ranged(1, 1, 64)
    """Replicas added or removed at a step. 1 is the most stable, 2 follows faster (section 5)."""
    threshold: float = ranged(0.2, 0, 0.99)
    """Only a latency this far below the target, as a share of it, is a reason for more replicas: 20 % against 10 %
    makes fewer violations at about the same throughput (section 5)."""
    interval_s: float = ranged(1.0, 0.1, 3600, "s")
    """Control step (section 4)."""
    cores: int = ranged(4, 1, 100_000)
    """Cores of the machine; two of them are left to the first and the last stage."""

    @property
    def most(self) -> int:
        """Replicas there may be: cores − 2, and never less than one."""
        return max(1, self.cores - 2)


@dataclass(frozen=True, slots=True)
class Step:
    """One control step of the replicated group."""

    replicas: int
    latency_s: float | None
    """Mean of the items that were finished in the step; None: there was none."""
    rate_per_s: float | None = None
    """Requested items per second; None: not known."""
    waits: bool = False
    """More items wait for a replica than there are replicas."""
    service_s: float | None = None
    """What all stages take for an item, where items wait inside for one another, so that the latency is not theirs."""
    cpu_share: float = 1.0
    """Share of the group's time for an item in which it computes; the rest it waits for something else."""


@dataclass(frozen=True, slots=True)
class ReplicaChoice:
    """Replicas from now on, and why that many."""

    replicas: int
    reason: str


class Regulator(ABC):
    """Pure: same calls, same answers. A resize is made in place: nothing is drained, no composition is switched."""

    name: str

    @abstractmethod
    def regulate(self, step: Step) -> ReplicaChoice:
        """To be asked once every ``interval_s`` of its settings."""


# Vogel et al. 2018, section 4, algorithm 1: the latency-aware degree of parallelism in SPar.


class Spar(Regulator):
    """Above the target ``scaling_factor`` replicas less, clearly below it as many more, for throughput.

    Its sign is that of a source that reads as fast as it can: there more replicas contend for the cores and raise the
    latency. With a paced source too few replicas raise it too, by queueing, and this regulator then makes it worse.

    Algorithm 1 is an image in the paper. That "significantly lower" means below target · (1 − threshold) is read from
    the text around it; that a step without a finished item changes nothing is inferred.
    """

    name = "spar"

    def __init__(self, settings: RegulatorSettings) -> None:
        self._settings = settings
        self._target_s = settings.target_ms / 1e3

    def regulate(self, step: Step) -> ReplicaChoice:
        if step.latency_s is None:
            return ReplicaChoice(step.replicas, "spar: no item was finished in this step")
        replicas = min(max(step.replicas + self._change(step.latency_s), 1), self._settings.most)
        return ReplicaChoice(replicas, self._reason(step.latency_s, replicas))

    def _change(self, latency_s: float) -> int:
        if latency_s > self._target_s:
            return -self._settings.scaling_factor
        if latency_s < self._target_s * (1 - self._settings.threshold):
            return self._settings.scaling_factor
        return 0

    def _reason(self, latency_s: float, replicas: int) -> str:
        low = self._settings.target_ms * (1 - self._settings.threshold)
        bounds = f"{figure(low, 4)} to {figure(self._settings.target_ms, 4)} ms"
        seen = f"latency {figure(latency_s * 1e3, 4)} ms against {bounds}"
        return f"spar: {seen}: {replicas} of at most {self._settings.most}"


# Regulator ``two-sided``, ours: it detects on which side of the optimum the number of replicas lies.
#
# Too few replicas raise the latency by queueing, too many by contention. Waiting items, and the number of replicas
# that the load requires, indicate the first; the time per item with more computing replicas than cores indicates the
# second.


class TwoSided(Regulator):
    """An item takes ``alone · max(1, replicas / knee)``, where the knee is as many as the cores bear: what it takes
    alone is learned, and so it goes to the number that it wants at once. It moves only when it must.

    ``cores``: that replicas share; those of the settings may count hardware threads.
    """

    name = "two-sided"
    AIM = 0.75
    """Latency that it aims at, as a share of the target."""
    TOO_HIGH, TOO_LOW = 0.9, 0.6
    """Expected latencies beyond which it acts, as shares of the target."""
    FULL = 0.8
    """Share of time that replicas can be busy before items wait."""
    CONTENDED = 0.9
    """Share of the cores in use from which on replicas are assumed to contend."""
    LEAST_SHARE = 0.01
    SPARE, SPARE_STEPS = 0.75, 5
    """Replicas are released if this share of them has been enough for this many steps."""

    def __init__(self, settings: RegulatorSettings, cores: int) -> None:
        self._target_s, self._most, self._cores = settings.target_ms / 1e3, settings.most, cores
        self._alone_s: float | None = None
        self._spared = 0

    def regulate(self, step: Step) -> ReplicaChoice:
        if step.latency_s is None:
            return ReplicaChoice(step.replicas, f"{self.name}: no item was finished in this step")
        knee = self._knee(step)
        stretch = max(1.0, step.replicas / knee)
        expected_s = self._expected_s((step.service_s or step.latency_s) / stretch)
        share, needed = expected_s * stretch / self._target_s, self._needed(expected_s, step)
        wanted = min(max(min(self._bearable(expected_s, knee), needed), 1), self._most)
        self._spared = self._spared + 1 if needed <= self.SPARE * step.replicas else 0
        if share > self.TOO_HIGH and wanted < step.replicas:
            return self._told(wanted, f"{share:.0%} of the target expected, by contention for {self._cores} cores")
        free = wanted if share < self.TOO_LOW else min(wanted, floor(knee))  # up to there nobody contends
        if free > step.replicas:
            why = "items wait" if step.waits else f"{figure(step.rate_per_s or 0.0)} items/s are asked for"
            return self._told(free, f"{why}, and there is room")
        if self._spared >= self.SPARE_STEPS and wanted < step.replicas:
            return self._told(wanted, "fewer have been enough for a while")
        return self._told(step.replicas, f"{share:.0%} of the target expected")

    def _knee(self, step: Step) -> float:
        """Replicas from which on they contend; while they do, all of an item's time counts as computed."""
        free = step.replicas * step.cpu_share < self.CONTENDED * self._cores
        return self._cores / max(step.cpu_share, self.LEAST_SHARE) if free else float(self._cores)

    def _expected_s(self, alone_s: float) -> float:
        """Return what an item will take alone: as now, and on by as much as it has risen."""
        before, self._alone_s = self._alone_s, alone_s
        return alone_s if before is None else alone_s + max(0.0, alone_s - before)

    def _bearable(self, alone_s: float, knee: float) -> int:
        """Most replicas whose contention the target bears. Fewer than contend would not be faster."""
        return max(floor(knee), floor(knee * self.AIM * self._target_s / alone_s)) if alone_s > 0 else self._most

    def _needed(self, alone_s: float, step: Step) -> int:
        """Those that the rate keeps busy; while items wait, more than there are."""
        more = step.replicas + 1 if step.waits else 1
        if step.rate_per_s is None:
            return self._most if step.waits else step.replicas
        return max(more, ceil(step.rate_per_s * alone_s / self.FULL))

    def _told(self, replicas: int, why: str) -> ReplicaChoice:
        return ReplicaChoice(replicas, f"{self.name}: {why}: {replicas} of at most {self._most}")
