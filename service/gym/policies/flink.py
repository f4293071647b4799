"""Policy ``flink``: the autoscaler of the Flink Kubernetes operator, which is DS2 with a target utilization.

Sources: Kalavri et al., "Three steps is all you need: fast, accurate, automatic scaling decisions for distributed
streaming dataflows" (OSDI 2018), section 3.2: the true processing rate of an operator is what it processes in the time
that it is busy, and its parallelism follows from the rate that its source sends. Flink Kubernetes operator
documentation, "Autoscaler", and its configuration's defaults: window 15 min, stabilization 5 min, target utilization
0.7 ± 0.3, catch-up 30 min, at most 60 % fewer at once. Nothing restarts here, so no time for a restart is added.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from service.gym.policies.port import Given, Measured, Policy, Replicas, StageNow
from service.gym.policies.window import Window

_EXACT = 1e-9


@dataclass(frozen=True, slots=True)
class FlinkSettings:
    """As published."""

    window_s: float = 900.0
    stabilization_s: float = 300.0
    """After a change nothing is measured for so long."""
    catch_up_s: float = 1800.0
    """In which a backlog is to be gone."""
    target: float = 0.7
    boundary: float = 0.3
    """All stages within the target ± this: no change."""
    most_fewer: float = 0.6


class Flink(Policy):
    """All stages of the app together."""

    SETTINGS = FlinkSettings()

    def __init__(self, given: Given) -> None:
        self._window = Window(self.SETTINGS.window_s)
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
            self._from_s = now.at_s + self.SETTINGS.stabilization_s
        return asked

    def _true_per_s(self, index: int, stage: StageNow) -> float | None:
        """What its replicas would do together if they were always busy; None: not known."""
        busy_s = self._window.busy_s(index)
        return stage.replicas * self._window.done(index) / busy_s if busy_s else None

    def _needed_per_s(self, utilization: float) -> float:
        """What a stage is to be able to: the rate at this utilization, and to work off what waits."""
        lag = self._now.backlog if self._now is not None else 0
        return self._window.arrived_per_s / utilization + lag / self.SETTINGS.catch_up_s

    def _within(self, index: int, stage: StageNow) -> bool:
        able_per_s, settings = self._true_per_s(index, stage), self.SETTINGS
        if able_per_s is None:
            return True
        low, high = settings.target - settings.boundary, min(1.0, settings.target + settings.boundary)
        return self._needed_per_s(high) <= able_per_s <= self._needed_per_s(low)

    def _replicas(self, index: int, stage: StageNow) -> int:
        able_per_s = self._true_per_s(index, stage)
        if able_per_s is None:
            return stage.replicas
        factor = max(1 - self.SETTINGS.most_fewer, self._needed_per_s(self.SETTINGS.target) / able_per_s)
        return max(1, math.ceil(factor * stage.replicas - _EXACT))


class FlinkScaled(Flink):
    """With its times divided by 60: a window of 15 s, 5 s of stabilization, catching up in 30 s."""

    SETTINGS = FlinkSettings(15.0, 5.0, 30.0)
