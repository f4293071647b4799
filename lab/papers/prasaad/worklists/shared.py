"""One queue for all keys (Prasaad et al., section 4.1)."""

from __future__ import annotations

from collections import deque

from lab.papers.prasaad.worklists.port import Demand, Entry, Worklist


class Shared(Worklist):
    """Taking a tuple and locking its partition is one step, else two workers could take two tuples of a partition and
    lock it the wrong way round. So while the oldest tuple's partition is in work, nobody gets anything."""

    name = "shared"

    def __init__(self) -> None:
        super().__init__()
        self._queue: deque[Entry] = deque()
        self._locked: set[int] = set()

    def put(self, entry: Entry) -> None:
        self._queue.append(entry)
        self.waiting += 1

    def take(self, demand: Demand) -> list[Entry]:
        if not self.ready(demand.room_to):
            return []
        queue, partition = self._queue, self._queue[0].partition
        taken: list[Entry] = []
        while queue and len(taken) < demand.most and queue[0].partition == partition:
            if queue[0].serial >= demand.room_to:
                break
            taken.append(queue.popleft())
        self._locked.add(partition)
        self.waiting -= len(taken)
        return taken

    def done(self, worker: int, entries: list[Entry]) -> bool:
        self._locked.discard(entries[0].partition)
        return False

    def ready(self, room_to: int) -> bool:
        head = self._queue[0] if self._queue else None
        return head is not None and head.serial < room_to and head.partition not in self._locked
