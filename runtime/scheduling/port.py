"""The interface of a scheduler: choose the operator that an idle worker runs next, given measurements of all operators.

Operators are in the order of the pipeline. A scheduler has no state of its own: it gets the measurements as ``Look``
objects, which ``Book`` makes.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from compositions.batch_settings import SchedulerSettings

UNKNOWN_SELECTIVITY = 1.0
"""Assumed selectivity of an operator that has not run yet: as many outputs as inputs."""


class Look(NamedTuple):
    """The state and measurements of one operator at the time of a scheduling decision."""

    waiting: int
    """Number of tuples in its worklist."""
    ready: bool
    """True if one more worker would find a tuple that it may run."""
    workers: int
    most_workers: int
    """Maximum parallelism: 1 if stateful, the number of partitions if partitioned, else all workers."""
    cost_s: float | None = None
    """Estimated time per tuple; None: the operator has not run yet."""
    selectivity: float = UNKNOWN_SELECTIVITY
    """Estimated number of outputs per tuple."""
    spent_s: float = 0.0
    """Worker time spent at the operator in the present window, without turns that have not ended."""

    @property
    def schedulable(self) -> bool:
        """True if the operator has work and room for one more worker (Prasaad et al., section 6)."""
        return self.ready and self.workers < self.most_workers


class Scheduler(ABC):
    """Chooses the operator for an idle worker. A pure function: the same looks give the same choice."""

    name: str

    def __init__(self, settings: SchedulerSettings) -> None:
        self.settings = settings

    @abstractmethod
    def choose(self, looks: Sequence[Look]) -> int | None:
        """Return the index of the operator to run; None: no schedulable one should run now."""

    def allotment(self, look: Look) -> int:
        """Return the number of tuples of a turn: those of one time slice, or 1 if the cost is unknown (section 6)."""
        return 1 if not look.cost_s else max(1, int(self.settings.slice_s / look.cost_s))


class Queue(NamedTuple):
    """The fields of a ``Look`` that need no measurement."""

    waiting: int
    ready: bool
    workers: int
    most_workers: int


class Visit(NamedTuple):
    """The work of a worker at an operator between two scheduling decisions."""

    began_s: float
    ended_s: float
    tuples: int
    outputs: int
    busy_s: float
    """Time spent on tuples; the rest of the visit went to receiving and sending them."""


@dataclass(slots=True)
class Measured:
    """The weighted sums of one operator, and the time spent in a window."""

    tuples: float = 0.0
    outputs: float = 0.0
    busy_s: float = 0.0
    window: int = -1
    spent_s: float = 0.0


class Book:
    """The measurements of all operators. Estimates are exponentially weighted means over tuples: a tuple counts half
    after ``half_life`` more tuples. A mean over *visits* would weight a tuple of a short visit more than one of a long
    visit; the paper speaks only of averages (section 2.2)."""

    def __init__(self, operators: int, settings: SchedulerSettings) -> None:
        self._settings = settings
        self._entries = [Measured() for _ in range(operators)]

    def note(self, operator: int, visit: Visit) -> None:
        entry = self._entries[operator]
        kept = 0.5 ** (visit.tuples / self._settings.half_life)
        entry.tuples = kept * entry.tuples + visit.tuples
        entry.outputs = kept * entry.outputs + visit.outputs
        entry.busy_s = kept * entry.busy_s + visit.busy_s
        self._spend(entry, visit)

    def looks(self, now_s: float, queues: Iterable[Queue]) -> list[Look]:
        """Return the present look of each operator, in the order of the pipeline."""
        window = self._window(now_s)
        return [self._look(entry, queue, window) for entry, queue in zip(self._entries, queues, strict=True)]

    def _look(self, entry: Measured, queue: Queue, window: int) -> Look:
        spent_s = entry.spent_s if entry.window == window else 0.0
        if not entry.tuples:
            return Look(*queue, None, UNKNOWN_SELECTIVITY, spent_s)
        return Look(*queue, entry.busy_s / entry.tuples, entry.outputs / entry.tuples, spent_s)

    def _spend(self, entry: Measured, visit: Visit) -> None:
        """Add the part of a visit that lies in the present window."""
        window = self._window(visit.ended_s)
        if entry.window != window:
            entry.window, entry.spent_s = window, 0.0
        entry.spent_s += visit.ended_s - max(visit.began_s, window * self._settings.window_s)

    def _window(self, at_s: float) -> int:
        return int(at_s / self._settings.window_s)
