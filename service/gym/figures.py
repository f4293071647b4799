"""What a run came to."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean

import numpy as np

from service.gym.task import Task
from service.running.loop import TICK_S
from service.running.simulated.trace import Trace

_SHARE = 0.95
"""Of the items of a second are in time, or it is a late one."""
_STEP_S = 0.25


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one run of one task."""

    items: int
    """Due within the run and delivered, or not: what was not read, or has not come out by its end, is late."""
    in_time: float
    """Share of the items that were out within the bound."""
    worker_s: float
    """Workers of the active composition, over time. Idle ones that are kept warm beside it are not counted."""
    changes: int
    resizes: int
    recovery_s: float = 0.0
    """Mean time from the first second in which items were late to the first in which they were in time again."""

    @property
    def goodput(self) -> float:
        """Items in time per worker-second."""
        return self.in_time * self.items / self.worker_s if self.worker_s else 0.0


def figures_of(task: Task, run: Trace) -> Figures:
    """Of ``run``, which was one of ``task``."""
    good = sum(item.latency_s <= task.bound_s for item in run.delivered)
    due = _due(task) if run.offered is None else run.offered
    items = max(len(run.delivered), due - _still_in_time(task))
    worker_s = TICK_S * sum(moment.workers for moment in run.moments)
    counts = run.journal.switch_count, run.journal.resize_count
    return Figures(items, good / max(1, items), worker_s, *counts, _recovery_s(task, run))


def _due(task: Task) -> int:
    """By the rate: of a source that forgets what it was held back from."""
    return round(_STEP_S * sum(task.rate(at_s) for at_s in np.arange(0.0, task.duration_s, _STEP_S)))


def _still_in_time(task: Task) -> int:
    """Items under way at the end that are no older than the bound, about: as many as come in that time."""
    return round(task.bound_s * task.rate(task.duration_s))


def _recovery_s(task: Task, run: Trace) -> float:
    """Mean length of the stretches of seconds in which less than the share of the items was in time, by when they were
    due; a second of which nothing ever came out, though items were due, is one of them."""
    length = int(task.duration_s - task.bound_s)
    out, good = Counter[int](), Counter[int]()
    for item in run.delivered:
        out[int(item.since_s)] += 1
        good[int(item.since_s)] += item.latency_s <= task.bound_s
    bad = [good[at_s] < _SHARE * out[at_s] or (not out[at_s] and task.rate(at_s) >= 1) for at_s in range(length)]
    stretches = [len(list(run)) for late, run in groupby(bad) if late]
    return fmean(stretches) if stretches else 0.0
