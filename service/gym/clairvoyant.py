"""What one would pay who knew every cost and the load to come: the fewest workers at each moment.

By the capacity model with the true costs of the stages: a bound to compare with, which no policy can run.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from compositions.capacity.costs import PACED_ARRIVAL_CV, Conditions, StageCost
from compositions.capacity.predict import predict_all
from compositions.capacity.table import CompositionTable
from compositions.model import Composition
from service.gym.task import Task

_GRID_PER_S = 0.5
"""Rates are rounded up to this."""


class Clairvoyant:
    """Of one task."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._known: dict[int, int] = {}

    @cached_property
    def _table(self) -> CompositionTable:
        return CompositionTable(self._task.compositions)

    def cheapest(self, rate_per_s: float) -> Composition:
        """The composition with the fewest workers that has the share of the items in time; where none has, the one
        that comes closest."""
        stages, task = self._task.stages, self._task
        costs = {s.name: StageCost(s.service_s, s.service_s * (1 - s.wait_share), s.cv) for s in stages}
        cv = PACED_ARRIVAL_CV if task.arrivals == "paced" else 1.0
        hop_s = task.machine.hop_s + task.machine.hop_cpu_s
        told = predict_all(self._table, costs, Conditions(task.machine.cores, hop_s, rate_per_s, arrival_cv=cv))
        late_s = np.where(told.p95_s <= task.bound_s, 0.0, told.p95_s)
        return self._table.compositions[int(np.lexsort((self._table.groups, self._table.workers, late_s))[0])]

    def workers(self, rate_per_s: float) -> int:
        step = max(1, int(np.ceil(rate_per_s / _GRID_PER_S)))
        if step not in self._known:
            self._known[step] = self.cheapest(step * _GRID_PER_S).workers
        return self._known[step]

    def worker_s(self) -> float:
        """Worker-seconds over the task's load."""
        step_s = 0.25
        times = np.arange(0.0, self._task.duration_s, step_s)
        return step_s * sum(self.workers(self._task.rate(float(at_s))) for at_s in times)

    def peak(self) -> Composition:
        """Provisioned for the highest rate of the load."""
        times = np.arange(0.0, self._task.duration_s, 0.25)
        return self.cheapest(max(self._task.rate(float(at_s)) for at_s in times))
