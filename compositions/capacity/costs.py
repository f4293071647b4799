"""What prediction starts from: what stages cost, and under which conditions they run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

PACED_ARRIVAL_CV = 0.1
"""Of the times between items of a source that keeps its pace; 1 would be independent users (Poisson)."""


@dataclass(frozen=True, slots=True)
class StageCost:
    """What a stage spends on an item while busy: mean wall and CPU time, coefficient of variation of the wall time."""

    service_s: float
    cpu_s: float
    cv: float = 0.0
    at_once: float = 1
    """Calls of it that a worker has at a time, where it waits: between the steps of one the worker is free."""

    def of_bundle(self, items: float) -> StageCost:
        """What so many together cost: items vary independently, and calls that wait overlap."""
        if items == 1:
            return self
        service_s = max(1.0, items / self.at_once) * self.service_s
        if self.at_once > 1:
            service_s = max(service_s, items * self.cpu_s)
        return StageCost(service_s, items * self.cpu_s, self.cv / sqrt(items), max(1.0, self.at_once / items))

    @property
    def held_s(self) -> float:
        """How long it keeps its worker from anything else."""
        return self.cpu_s if self.at_once > 1 else self.service_s


def occupied_s(stages: Sequence[StageCost]) -> float:
    """How long a task takes up one worker that runs these stages: what a worker can do is one task in that time."""
    return max(sum(stage.held_s for stage in stages), *(stage.service_s / stage.at_once for stage in stages))


@dataclass(frozen=True, slots=True)
class Conditions:
    """Machine and load: ``cores`` that all workers share, the price of a hop into a group, and the input.

    Of a hop's ``hop_s``, ``hop_cpu_s`` is CPU (all of it when None). Without an input rate only the capacity is told.
    """

    cores: float
    hop_s: float
    input_rate_per_s: float | None
    hop_cpu_s: float | None = None
    arrival_cv: float = PACED_ARRIVAL_CV
    """Coefficient of variation of the times between arrivals."""
    bundle_items: float = 1.0
    """Mean number of items that travel together, one at least: they share a hop, and wait for each other."""
    bundle_limit: float = 1.0
    """So many may travel together, if more than that: under load bundles grow until they carry the rate."""

    @property
    def most_items(self) -> float:
        return max(self.bundle_items, self.bundle_limit)
