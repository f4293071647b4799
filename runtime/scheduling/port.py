"""The port of a scheduler: choose the operator that an idle worker runs next, from what is known of all operators.

Operators stand in the order of the pipeline. A scheduler has no state of its own: measurements come in the looks
(``book.py`` keeps them).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from compositions.batch_settings import SchedulerSettings

UNKNOWN_SELECTIVITY = 1.0
"""Of an operator that has not run yet: as many outputs as inputs."""


class Look(NamedTuple):
    """One operator, when a worker asks."""

    waiting: int
    """Tuples in its worklist."""
    ready: bool
    """One more worker would find a tuple there that it may run."""
    workers: int
    """Workers at it now."""
    most_workers: int
    """Its maximal parallelism: 1 if it is stateful, its partitions if it has some, else all workers."""
    cost_s: float | None = None
    """Estimated time that it takes for a tuple; None: it has not run yet."""
    selectivity: float = UNKNOWN_SELECTIVITY
    """Estimated outputs for a tuple."""
    spent_s: float = 0.0
    """Worker time spent at it in the present window, without the turns that still go on."""

    @property
    def schedulable(self) -> bool:
        """It has work, and room for one more worker (Prasaad et al., section 6)."""
        return self.ready and self.workers < self.most_workers


class Scheduler(ABC):
    """Answers an idle worker. Pure: same looks, same answer."""

    name: str

    def __init__(self, settings: SchedulerSettings) -> None:
        self.settings = settings

    @abstractmethod
    def choose(self, looks: Sequence[Look]) -> int | None:
        """Number of the operator to run; None: none that is schedulable should run now."""

    def allotment(self, look: Look) -> int:
        """Tuples of a turn there: as many as take a slice, and one where the cost is not known yet (section 6)."""
        return 1 if not look.cost_s else max(1, int(self.settings.slice_s / look.cost_s))
