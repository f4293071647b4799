"""What one would pay who knew every cost and the load to come: the fewest workers at each moment.

By the capacity model with the true costs of the stages: a bound to compare with, which no policy can run.
"""

from __future__ import annotations

from functools import cached_property
from statistics import fmean

import numpy as np

from compositions.capacity.costs import PACED_ARRIVAL_CV, Conditions, StageCost
from compositions.capacity.predict import predict_all
from compositions.capacity.table import CompositionTable
from compositions.model import Composition
from service.gym.task import Task
from service.running.simulated.scenario import SimulatedStage
from service.running.simulated.simulated_costs import drift

_GRID_PER_S = 0.5
"""Rates are rounded up to this."""
_STEP_S = 0.25
_AS_GOOD = 0.98
"""Within 2 % of the best counts as the best where nothing is enough, as for the strategy ``model``."""


class Clairvoyant:
    """Of one task."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._known: dict[tuple[float, ...], int] = {}

    @cached_property
    def _table(self) -> CompositionTable:
        return CompositionTable(self._task.compositions)

    def cheapest(self, rate_per_s: float, at_s: float = 0.0) -> Composition:
        """The composition with the fewest workers that has the share of the items in time, with what the stages cost at
        ``at_s`` and the cores that there are; where none has, the one that comes closest."""
        task = self._task
        costs = {s.name: _cost(s, at_s) for s in task.stages}
        cv = PACED_ARRIVAL_CV if task.arrivals == "paced" else 1.0
        hop_s = task.machine.hop_s + task.machine.hop_cpu_s
        told = predict_all(self._table, costs, Conditions(task.cores_at(at_s), hop_s, rate_per_s, arrival_cv=cv))
        late_s = np.where(told.p95_s <= task.bound_s, 0.0, told.p95_s)
        if np.isinf(late_s).all():  # a queue grows in each of them, in those that do the most the least
            late_s = np.where(told.throughput_per_s >= _AS_GOOD * told.throughput_per_s.max(), 0.0, np.inf)
        return self._table.compositions[int(np.lexsort((self._table.groups, self._table.workers, late_s))[0])]

    def workers(self, rate_per_s: float, at_s: float = 0.0) -> int:
        task = self._task
        step = max(1, int(np.ceil(rate_per_s / _GRID_PER_S)))
        key = (step, task.cores_at(at_s), *(round(drift(stage.factors, at_s), 1) for stage in task.stages))
        if key not in self._known:
            self._known[key] = self.cheapest(step * _GRID_PER_S, at_s).workers
        return self._known[key]

    def worker_s(self) -> float:
        """Worker-seconds over the task's load."""
        return _STEP_S * sum(self.workers(self._task.rate(at_s), at_s) for at_s in self._times_s)

    def peak(self) -> Composition:
        """Provisioned for the moment of the load that needs most."""
        task = self._task
        at_s = max(self._times_s, key=lambda each: (self.workers(task.rate(each), each), task.rate(each)))
        return self.cheapest(task.rate(at_s), at_s)

    def mean(self) -> Composition:
        """Provisioned for the mean rate of the load."""
        return self.cheapest(fmean(self._task.rate(at_s) for at_s in self._times_s))

    @cached_property
    def _times_s(self) -> list[float]:
        return [float(at_s) for at_s in np.arange(0.0, self._task.duration_s, _STEP_S)]


def _cost(stage: SimulatedStage, at_s: float) -> StageCost:
    service_s = stage.service_s * drift(stage.factors, at_s)
    return StageCost(service_s, service_s * (1 - stage.wait_share), stage.cv)
