"""Port the autoscaler of the Flink Kubernetes operator, which is DS2 with a target utilization: policy ``flink``.

Sources: Kalavri et al., "Three steps is all you need: fast, accurate, automatic scaling decisions for distributed
streaming dataflows" (OSDI 2018), section 3.2: the true processing rate of an operator is what it processes in the time
that it is busy, and its parallelism follows from the rate that its source sends. Flink Kubernetes operator
documentation, "Autoscaler", and its configuration's defaults: window 15 min, stabilization 5 min, target utilization
0.7 ± 0.3, catch-up 30 min, at most 60 % fewer at once. This port omits the time for a restart (nothing restarts here),
the interval of 1 h by which newer versions delay fewer replicas, and parallelisms that divide the number of key groups.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from lab.gym.policies.port import Given, Measured, Policy, Replicas, StageNow
from lab.gym.policies.window import Window

_EXACT = 1e-9


@dataclass(frozen=True, slots=True)
class FlinkSettings:
    """The defaults of the operator."""

    window_s: float = 900.0
    stabilization_s: float = 300.0
    """After a change, nothing is measured for this time."""
    catch_up_s: float = 1800.0
    """Time within which a backlog is to be cleared."""
    target: float = 0.7
    """The utilization to hold."""
    boundary: float = 0.3
    """Nothing changes while all stages are within the target ± this."""
    most_fewer: float = 0.6
    """The largest share of its replicas that a stage gives back at once."""


PUBLISHED = FlinkSettings()


class Flink(Policy):
    """One autoscaler for all stages of the app."""

    def __init__(self, given: Given, settings: FlinkSettings = PUBLISHED) -> None:
        self._settings = settings
        self._window = Window(settings.window_s)
        self._now: Measured | None = None
        self._from_s = 0.0

    def observe(self, measured: Measured) -> None:
        self._now = measured
        if measured.at_s >= self._from_s:
            self._window.add(measured)

    def decide(self) -> Replicas:
        now = self._now
        if now is None or not self._window.full or now.at_s < self._from_s:
            return {}
        if all(self._within(index, stage) for index, stage in enumerate(now.stages)):
            return {}
        asked = {stage.name: self._replicas(index, stage) for index, stage in enumerate(now.stages)}
        if asked != {stage.name: stage.replicas for stage in now.stages}:
            self._window.clear()
            self._from_s = now.at_s + self._settings.stabilization_s
        return asked

    def _capacity_per_s(self, index: int, stage: StageNow) -> float | None:
        """Return what the replicas would process together if they were always busy."""
        service_s = self._window.service_s(index)
        return None if service_s is None else stage.replicas / service_s

    def _needed_per_s(self, utilization: float) -> float:
        """Return the capacity for the present rate at this utilization, and for the backlog."""
        lag = self._now.backlog if self._now is not None else 0
        return self._window.arrived_per_s / utilization + lag / self._settings.catch_up_s

    def _within(self, index: int, stage: StageNow) -> bool:
        capacity_per_s, settings = self._capacity_per_s(index, stage), self._settings
        if capacity_per_s is None:
            return True
        low, high = settings.target - settings.boundary, min(1.0, settings.target + settings.boundary)
        return self._needed_per_s(high) <= capacity_per_s <= self._needed_per_s(low)

    def _replicas(self, index: int, stage: StageNow) -> int:
        capacity_per_s = self._capacity_per_s(index, stage)
        if capacity_per_s is None:
            return stage.replicas
        factor = max(1 - self._settings.most_fewer, self._needed_per_s(self._settings.target) / capacity_per_s)
        return max(1, math.ceil(factor * stage.replicas - _EXACT))
