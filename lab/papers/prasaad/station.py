"""One operator at work: its worklist, its states, and its reorder ring with who may send from it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from compositions.model import StageKind
from lab.papers.prasaad.operators import Operator
from lab.papers.prasaad.ring import ReorderRing
from lab.papers.prasaad.worklists import make_worklist
from lab.papers.prasaad.worklists.fifo import Fifo
from lab.papers.prasaad.worklists.port import Demand, Entry, Worklist

Sending = Literal["non-blocking", "lock"]
"""Figure 4: who finds the flag taken goes on. Figure 2: who finds the lock taken waits for it."""


class Given(NamedTuple):
    """What came of one tuple: a unit of the ring."""

    origin: int
    values: list[int]


@dataclass(slots=True)
class Work:
    """What a worker has taken, with the state as it was then: a worklist that let two workers have one partition would
    lose what one of them added."""

    entries: list[Entry]
    state: int
    seconds: float


class Station:
    def __init__(self, operator: Operator, queue: str, ring_slots: int) -> None:
        self.operator = operator
        partitioned = operator.kind is StageKind.PARTITIONED
        self.worklist: Worklist = make_worklist(queue, operator.partitions) if partitioned else Fifo()
        self.ring = ReorderRing[Given](ring_slots)
        self.held = False
        """Somebody has the flag, or the lock."""
        self.in_line: deque[int] = deque()
        """Workers that wait for the lock, the first first."""
        self._states: dict[int, int] = {}
        self._arrived = 0
        self._origins: deque[int] = deque()
        """Of all tuples that have come and are not out of the ring, in order."""

    @property
    def oldest(self) -> int | None:
        """Of which input its oldest tuple came; None: it has none."""
        return self._origins[0] if self._origins else None

    def put(self, origin: int, value: int) -> None:
        self._arrived += 1
        self._origins.append(origin)
        self.worklist.put(Entry(self._arrived, self.operator.partition(value), value, origin))

    def ready(self) -> bool:
        return self.worklist.ready(self.ring.room_to)

    def take(self, worker: int, most: int) -> Work | None:
        entries = self.worklist.take(Demand(worker, most, self.ring.room_to))
        if not entries:
            return None
        seconds = sum(self.operator.time_s(entry.value) for entry in entries)
        return Work(entries, self._states.get(entries[0].partition, 0), seconds)

    def run(self, work: Work) -> list[Given]:
        """What comes of it, and the state after it."""
        given, state = [], work.state
        for entry in work.entries:
            values, state = self.operator.outputs(entry.value, state)
            given.append(Given(entry.origin, values))
        if self.operator.kind is not StageKind.STATELESS:
            self._states[work.entries[0].partition] = state
        return given

    def leave(self) -> Given:
        """The next unit of the ring, which is ready."""
        self._origins.popleft()
        return self.ring.pop()

    def keep(self, entries: Iterable[Entry], given: Iterable[Given]) -> None:
        """Into the ring: it has room, for nothing is taken that has none."""
        for entry, each in zip(entries, given, strict=True):
            if not self.ring.put(entry.serial, each):
                raise AssertionError(f"{self.operator.name}: no room for {entry.serial} from {self.ring.next} on")
