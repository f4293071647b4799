"""Run one operator: its worklist, its states, and its reorder ring with the worker that may send from it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Generic, Literal, NamedTuple, TypeVar

from compositions.model import StageKind
from lab.papers.prasaad.operators import Operator
from lab.papers.prasaad.worklists import Entry, Fifo, Worklist, make_worklist

T = TypeVar("T")


class ReorderRing(Generic[T]):
    """A bounded circular buffer of outputs by serial number, from 1 on, with a ``next`` counter (figure 4).

    An input without outputs puts an empty one, or all behind it would wait.
    """

    def __init__(self, slots: int) -> None:
        if slots < 1:
            raise ValueError(f"a ring has at least 1 slot, not {slots}")
        self._slots: list[tuple[T] | None] = [None] * slots
        self.next = 1
        """The serial number that leaves next."""

    @property
    def room_to(self) -> int:
        """Return the first serial number that has no slot yet."""
        return self.next + len(self._slots)

    @property
    def ready(self) -> bool:
        return self._slots[self.next % len(self._slots)] is not None

    def put(self, serial: int, output: T) -> bool:
        """Return False if it has no slot: only ``next ≤ serial < next + slots`` have, so that none is overwritten."""
        if not self.next <= serial < self.room_to:
            return False
        self._slots[serial % len(self._slots)] = (output,)
        return True

    def peek(self) -> T:
        """Return the output of ``next``. Raises: ValueError when it is not there yet."""
        found = self._slots[self.next % len(self._slots)]
        if found is None:
            raise ValueError(f"the output of {self.next} is not there yet")
        return found[0]

    def pop(self) -> T:
        """Remove and return the output of ``next``. Raises: ValueError when it is not there yet."""
        found = self.peek()
        self._slots[self.next % len(self._slots)] = None
        self.next += 1
        return found


Sending = Literal["non-blocking", "lock"]
"""Figure 4: a worker that finds the flag taken goes on. Figure 2: a worker that finds the lock taken waits for it."""


class Given(NamedTuple):
    """The outputs of one tuple: a unit of the ring."""

    origin: int
    values: list[int]


@dataclass(slots=True)
class Work:
    """A taken tuple, with the state at that time: with two workers on a partition, one state would be lost."""

    entry: Entry
    state: int
    seconds: float


class Station:
    def __init__(self, operator: Operator, queue: str, ring_slots: int, workers: int, move_s: float) -> None:
        """``move_s``: time to bring the state of a partition to another worker than the last one."""
        self.operator = operator
        partitioned = operator.kind is StageKind.PARTITIONED
        self.worklist: Worklist = make_worklist(queue, operator.partitions, workers) if partitioned else Fifo()
        self.ring = ReorderRing[Given](ring_slots)
        self.held = False
        """True if a worker has the flag, or the lock."""
        self.in_line: deque[int] = deque()
        """Workers that wait for the lock, in order."""
        self._states: dict[int, int] = {}
        self._move_s = move_s
        self._holders: dict[int, int] = {}
        """The worker that last had the state of each partition."""
        self._arrived = 0
        self._origins: deque[int] = deque()
        """Inputs of all tuples that arrived and have not left the ring, in order."""

    @property
    def oldest(self) -> int | None:
        """Return the input of its oldest tuple, or None."""
        return self._origins[0] if self._origins else None

    def put(self, origin: int, value: int) -> None:
        self._arrived += 1
        self._origins.append(origin)
        self.worklist.put(Entry(self._arrived, self.operator.partition(value), value, origin))

    def ready(self) -> bool:
        return self.worklist.ready(self.ring.room_to)

    def take(self, worker: int) -> Work | None:
        entry = self.worklist.take(worker, self.ring.room_to)
        if entry is None:
            return None
        seconds = self.operator.time_s(entry.value)
        if self._holders.setdefault(entry.partition, worker) != worker:
            self._holders[entry.partition] = worker
            seconds += self._move_s
        return Work(entry, self._states.get(entry.partition, 0), seconds)

    def run(self, work: Work) -> Given:
        """Run a tuple, and store the state after it."""
        values, state = self.operator.outputs(work.entry.value, work.state)
        if self.operator.kind is not StageKind.STATELESS:
            self._states[work.entry.partition] = state
        return Given(work.entry.origin, values)

    def leave(self) -> Given:
        """Remove and return the next unit of the ring, which is ready."""
        self._origins.popleft()
        return self.ring.pop()

    def keep(self, entry: Entry, given: Given) -> None:
        """Put outputs into the ring, which has room: otherwise no tuple is taken."""
        if not self.ring.put(entry.serial, given):
            raise AssertionError(f"{self.operator.name}: no room for {entry.serial} from {self.ring.next} on")
