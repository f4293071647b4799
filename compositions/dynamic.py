"""Workers that choose what to run next: what a dynamic composition says of them (Prasaad et al. 2017, section 6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

SchedulerName = Literal["qst", "lp", "et", "ct", "kanban"]
SCHEDULER_NAMES: tuple[SchedulerName, ...] = get_args(SchedulerName)
DEFAULT_SCHEDULER: SchedulerName = "lp"
"""The lowest latency of the published ones, at a throughput like the best (docs/ordered.md)."""


@dataclass(frozen=True, slots=True)
class Dyn:
    """So many workers run all stages, each of them whatever the scheduler says."""

    workers: int
    scheduler: SchedulerName = DEFAULT_SCHEDULER
