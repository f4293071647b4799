"""Regulator ``two-sided``: ours. It knows on which side of the optimum it is.

Too few replicas raise the latency by queueing, too many by contention. Whether items wait, and how many are asked for,
tells of the one side; how long an item takes where more replicas compute than there are cores, of the other.
"""

from __future__ import annotations

from math import ceil, floor

from compositions.wording import figure
from control.regulating.port import Regulator, ReplicaChoice, Step
from control.regulating.settings import RegulatorSettings


class TwoSided(Regulator):
    """An item takes ``alone · max(1, replicas / knee)``, where the knee is as many as the cores bear: what it takes
    alone is learned, and so it goes to the number that it wants at once. It moves only when it must.

    ``cores``: that replicas share; those of the settings may count hardware threads.
    """

    name = "two-sided"
    AIM = 0.75
    """Of the target, where it goes to."""
    TOO_HIGH, TOO_LOW = 0.9, 0.6
    """Of the target, what is expected beyond which it goes."""
    FULL = 0.8
    """Share of their time that replicas are busy where nothing waits."""
    CONTENDED = 0.9
    """Share of the cores that replicas compute on, from which on they are taken to contend."""
    LEAST_SHARE = 0.01
    SPARE, SPARE_STEPS = 0.75, 5
    """Replicas are given back when this share of them has been enough for so many steps."""

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
        wanted = self._held(min(self._bearable(expected_s, knee), needed))
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
        """Replicas from which on they contend. While they do, an item takes longer and the share that it computes is
        smaller than it is alone: then all of it counts."""
        free = step.replicas * step.cpu_share < self.CONTENDED * self._cores
        return self._cores / max(step.cpu_share, self.LEAST_SHARE) if free else float(self._cores)

    def _expected_s(self, alone_s: float) -> float:
        """What an item will take alone: as now, and on by as much as it has risen."""
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

    def _held(self, replicas: int) -> int:
        return min(max(replicas, 1), self._most)

    def _told(self, replicas: int, why: str) -> ReplicaChoice:
        return ReplicaChoice(replicas, f"{self.name}: {why}: {replicas} of at most {self._most}")
