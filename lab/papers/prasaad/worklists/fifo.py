"""Worklists of operators without keys: one queue, tuples in the order of arrival."""

from __future__ import annotations

from collections import deque

from lab.papers.prasaad.worklists.port import Demand, Entry, Worklist, taken_from


class Fifo(Worklist):
    """Of a stateless operator, for any number of workers, or of a stateful one, for one."""

    name = "fifo"

    def __init__(self) -> None:
        super().__init__()
        self._queue: deque[Entry] = deque()

    def put(self, entry: Entry) -> None:
        self._queue.append(entry)
        self.waiting += 1

    def take(self, demand: Demand) -> list[Entry]:
        taken = taken_from(self._queue, demand)
        self.waiting -= len(taken)
        return taken

    def done(self, worker: int, entries: list[Entry]) -> bool:
        return False

    def ready(self, room_to: int) -> bool:
        return bool(self._queue) and self._queue[0].serial < room_to
