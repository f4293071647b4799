"""The port of a scheduler: choose the operator that an idle worker runs next, from what is known of all operators.

Operators stand in the order of the pipeline. A scheduler has no state of its own: measurements come in the looks
(``Book`` keeps them).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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


class Queue(NamedTuple):
    """The facts about an operator that need no measurement; as in ``Look``."""

    waiting: int
    ready: bool
    workers: int
    most_workers: int


class Visit(NamedTuple):
    """The work of a worker at an operator between two questions."""

    began_s: float
    ended_s: float
    tuples: int
    outputs: int
    busy_s: float
    """Time at tuples; the rest of the visit went to taking and sending them."""


@dataclass(slots=True)
class Measured:
    """The weighted sums of one operator, and the time spent in a window."""

    tuples: float = 0.0
    outputs: float = 0.0
    busy_s: float = 0.0
    window: int = -1
    spent_s: float = 0.0


class Book:
    """Estimates are exponentially weighted means over tuples: sums of which a tuple counts half after ``half_life``
    more. A mean over *visits* would count a tuple of a short visit more than one of a long visit; the paper names
    averages only (section 2.2)."""

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
        """All operators as they are now, in the order of the pipeline."""
        window = self._window(now_s)
        return [self._look(entry, queue, window) for entry, queue in zip(self._entries, queues, strict=True)]

    def _look(self, entry: Measured, queue: Queue, window: int) -> Look:
        spent_s = entry.spent_s if entry.window == window else 0.0
        if not entry.tuples:
            return Look(*queue, None, UNKNOWN_SELECTIVITY, spent_s)
        return Look(*queue, entry.busy_s / entry.tuples, entry.outputs / entry.tuples, spent_s)

    def _spend(self, entry: Measured, visit: Visit) -> None:
        """A window counts the part of a visit that lies in it."""
        window = self._window(visit.ended_s)
        if entry.window != window:
            entry.window, entry.spent_s = window, 0.0
        entry.spent_s += visit.ended_s - max(visit.began_s, window * self._settings.window_s)

    def _window(self, at_s: float) -> int:
        return int(at_s / self._settings.window_s)
