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
    """Target of the latency, an upper limit; 180 and 200 ms in the paper's figures."""
    scaling_factor: int = ranged(1, 1, 64)
    """Replicas added or removed at a step. 1 is the most stable, 2 follows faster (section 5)."""
    threshold: float = ranged(0.2, 0, 0.99)
    """Distance below the target, as a share of it, beyond which replicas are added: 20 % instead of 10 % causes fewer
    violations at about the same throughput (section 5)."""
    interval_s: float = ranged(1.0, 0.1, 3600, "s")
    """Duration of a control step (section 4)."""
    cores: int = ranged(4, 1, 100_000)
    """Cores of the machine; two of them are left to the first and the last stage."""

    @property
    def most(self) -> int:
        """Maximum number of replicas: cores − 2, but at least one."""
        return max(1, self.cores - 2)


@dataclass(frozen=True, slots=True)
class Step:
    """The measurements of the replicated group in one control step."""

    replicas: int
    latency_s: float | None
    """Mean latency of the items that were finished in the step; None if there was none."""
    rate_per_s: float | None = None
    """Input rate in items/s; None: unknown."""
    waits: bool = False
    """True if more items wait for a replica than there are replicas."""
    service_s: float | None = None
    """Time of all stages for an item, set if items wait for one another inside, so that the latency includes waits."""
    cpu_share: float = 1.0
    """Share of the group's time for an item in which it uses a core; the rest is waiting, such as for a network."""


@dataclass(frozen=True, slots=True)
class ReplicaChoice:
    """The number of replicas from now on, with the reason."""

    replicas: int
    reason: str


class Regulator(ABC):
    """Chooses the number of replicas. Pure: same calls, same answers."""

    name: str

    @abstractmethod
    def regulate(self, step: Step) -> ReplicaChoice:
        """Return the number of replicas after a control step; called once every ``interval_s``."""


# Vogel et al. 2018, section 4, algorithm 1: the latency-aware degree of parallelism in SPar.


class Spar(Regulator):
    """Removes ``scaling_factor`` replicas if the latency is above the target, and adds as many if it is clearly below.

    This assumes a source that reads as fast as it can: more replicas then contend for the cores and raise the latency.
    With a paced source, too few replicas raise the latency too, by queueing, and this regulator makes it worse.

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
        seen = f"latency {figure(latency_s * 1e3, 4)} ms, wanted {bounds}"
        return f"spar: {seen}: {replicas} of at most {self._settings.most} replicas"


# Regulator ``two-sided``, developed here: it detects if there are too few or too many replicas.
#
# Too few replicas raise the latency by queueing, too many by contention. Waiting items, and the number of replicas
# that the load requires, show that there are too few. A higher time per item, with more computing replicas than cores,
# shows that there are too many.


class TwoSided(Regulator):
    """Models the time of an item as ``alone · max(1, replicas / knee)``, and learns ``alone``, the time without
    contention. The knee is the number of replicas that the cores can run. It changes the replicas only if necessary.

    ``cores``: number of cores that the replicas share; ``settings.cores`` may count hardware threads.
    """

    name = "two-sided"
    AIM = 0.75
    """Desired latency, as a share of the target."""
    TOO_HIGH, TOO_LOW = 0.9, 0.6
    """Expected latencies above and below which the replicas are changed, as shares of the target."""
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
            return self._told(wanted, f"expected latency {share:.0%} of the target: {self._cores} cores are contended")
        free = wanted if share < self.TOO_LOW else min(wanted, floor(knee))  # up to the knee there is no contention
        if free > step.replicas:
            why = "items wait" if step.waits else f"{figure(step.rate_per_s or 0.0)} items/s arrive"
            return self._told(free, f"{why}, and more replicas are possible")
        if self._spared >= self.SPARE_STEPS and wanted < step.replicas:
            return self._told(wanted, "fewer replicas have been enough for a while")
        return self._told(step.replicas, f"expected latency {share:.0%} of the target")

    def _knee(self, step: Step) -> float:
        """Return the number of replicas above which they contend; under contention all time counts as CPU time."""
        free = step.replicas * step.cpu_share < self.CONTENDED * self._cores
        return self._cores / max(step.cpu_share, self.LEAST_SHARE) if free else float(self._cores)

    def _expected_s(self, alone_s: float) -> float:
        """Return the forecast of an item's time without contention: the present one, plus its last rise."""
        before, self._alone_s = self._alone_s, alone_s
        return alone_s if before is None else alone_s + max(0.0, alone_s - before)

    def _bearable(self, alone_s: float, knee: float) -> int:
        """Return the most replicas whose contention the target allows; at least the knee, as fewer are not faster."""
        return max(floor(knee), floor(knee * self.AIM * self._target_s / alone_s)) if alone_s > 0 else self._most

    def _needed(self, alone_s: float, step: Step) -> int:
        """Return the replicas that the input rate requires; while items wait, at least one more than there are."""
        more = step.replicas + 1 if step.waits else 1
        if step.rate_per_s is None:
            return self._most if step.waits else step.replicas
        return max(more, ceil(step.rate_per_s * alone_s / self.FULL))

    def _told(self, replicas: int, why: str) -> ReplicaChoice:
        return ReplicaChoice(replicas, f"{self.name}: {why}: {replicas} of at most {self._most} replicas")
