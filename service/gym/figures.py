"""What a run came to."""

from __future__ import annotations

from dataclasses import dataclass

from service.gym.task import Task
from service.running.loop import TICK_S
from service.running.simulated.trace import Trace


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one run of one task."""

    items: int
    """Due within the run and delivered, or not: what has not come out by its end is late."""
    in_time: float
    """Share of the items that were out within the bound."""
    worker_s: float
    """Workers of the active composition, over time. Idle ones that are kept warm beside it are not counted."""
    changes: int
    resizes: int

    @property
    def goodput(self) -> float:
        """Items in time per worker-second."""
        return self.in_time * self.items / self.worker_s if self.worker_s else 0.0


def figures_of(task: Task, run: Trace) -> Figures:
    """Of ``run``, which was one of ``task``."""
    good = sum(item.latency_s <= task.bound_s for item in run.delivered)
    undelivered = run.accepted - len(run.delivered)
    fresh = _still_in_time(task, run)
    items = len(run.delivered) + max(0, undelivered - fresh)
    worker_s = TICK_S * sum(moment.workers for moment in run.moments)
    return Figures(items, good / max(1, items), worker_s, run.journal.switch_count, run.journal.resize_count)


def _still_in_time(task: Task, run: Trace) -> int:
    """Items under way at the end that are no older than the bound, about: as many as come in that time."""
    return round(task.bound_s * task.rate(task.duration_s))
