"""A queue a partition, a worker a partition (Prasaad et al., section 4.2)."""

from __future__ import annotations

from collections import deque

from lab.papers.prasaad.worklists.port import Demand, Entry, Worklist, taken_from


class Partitioned(Worklist):
    """A worker keeps a partition as long as its turn lasts. It takes the one that it had last, if that has tuples, else
    the one whose head is the oldest: the paper leaves open which."""

    name = "partitioned"

    def __init__(self, partitions: int) -> None:
        super().__init__()
        self._queues: list[deque[Entry]] = [deque() for _ in range(partitions)]
        self._held: dict[int, int] = {}
        """Partition by worker, while its turn lasts."""
        self._last: dict[int, int] = {}
        self._taken: set[int] = set()

    def put(self, entry: Entry) -> None:
        self._queues[entry.partition].append(entry)
        self.waiting += 1

    def take(self, demand: Demand) -> list[Entry]:
        partition = self._held.get(demand.worker)
        if partition is None:
            partition = self._free_for(demand)
            if partition is None:
                return []
            self._held[demand.worker] = self._last[demand.worker] = partition
            self._taken.add(partition)
        taken = taken_from(self._queues[partition], demand)
        self.waiting -= len(taken)
        return taken

    def done(self, worker: int, entries: list[Entry]) -> bool:
        return False

    def ready(self, room_to: int) -> bool:
        return bool(self._open(room_to))

    def left(self, worker: int) -> None:
        partition = self._held.pop(worker, None)
        if partition is not None:
            self._taken.discard(partition)

    def _free_for(self, demand: Demand) -> int | None:
        free = self._open(demand.room_to)
        last = self._last.get(demand.worker)
        return last if last in free else min(free, key=lambda each: self._queues[each][0].serial, default=None)

    def _open(self, room_to: int) -> list[int]:
        """Partitions that nobody has, with a tuple that may be taken."""
        queues = enumerate(self._queues)
        return [at for at, queue in queues if at not in self._taken and queue and queue[0].serial < room_to]
