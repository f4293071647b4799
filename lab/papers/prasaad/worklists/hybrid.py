"""A queue a partition, and one master queue of partitions in the order of arrival (Prasaad et al., section 4.3)."""

from __future__ import annotations

from collections import deque

from lab.papers.prasaad.worklists.port import Demand, Entry, Worklist


class Hybrid(Worklist):
    """Figure 7. A worker draws a partition from the master queue. If nobody is at it, it is the worker's; else the
    tuple is left to who is at it, by a counter, and the worker draws again. So no partition is at two workers, its
    tuples are taken in order, nobody waits, and tuples are begun almost in the order of arrival.
    """

    name = "hybrid"

    def __init__(self, partitions: int) -> None:
        super().__init__()
        self._queues: list[deque[Entry]] = [deque() for _ in range(partitions)]
        self._master: deque[tuple[int, int]] = deque()
        """Partition and serial number, the oldest first."""
        self._granted = [0] * partitions
        """``count`` in the paper: tuples of a partition that its worker has, or is to take; 0: it has no worker."""
        self._at: dict[int, int] = {}
        """Partition by worker."""

    def put(self, entry: Entry) -> None:
        self._queues[entry.partition].append(entry)
        # Only now the key: who draws it finds the tuple.
        self._master.append((entry.partition, entry.serial))
        self.waiting += 1

    def take(self, demand: Demand) -> list[Entry]:
        partition = self._at.get(demand.worker)
        if partition is None:
            partition = self._draw(demand.room_to)
            if partition is None:
                return []
            self._at[demand.worker] = partition
        self._draw_more(partition, demand)
        queue = self._queues[partition]
        taken = [queue.popleft() for _ in range(min(demand.most, self._granted[partition]))]
        self.waiting -= len(taken)
        return taken

    def done(self, worker: int, entries: list[Entry]) -> bool:
        partition = entries[0].partition
        self._granted[partition] -= len(entries)
        if self._granted[partition]:
            return True
        del self._at[worker]
        return False

    def ready(self, room_to: int) -> bool:
        """A first look at the master queue; keys of partitions in work are left to their workers meanwhile."""
        self._delegate(room_to)
        return bool(self._master) and self._master[0][1] < room_to

    def _draw(self, room_to: int) -> int | None:
        if not self.ready(room_to):
            return None
        partition, _ = self._master.popleft()
        self._granted[partition] = 1
        return partition

    def _delegate(self, room_to: int) -> None:
        master = self._master
        while master and master[0][1] < room_to and self._granted[master[0][0]]:
            self._granted[master.popleft()[0]] += 1

    def _draw_more(self, partition: int, demand: Demand) -> None:
        """For a worker that takes several at a time: more of the same partition, if they come next."""
        master = self._master
        while self._granted[partition] < demand.most and master and master[0][0] == partition:
            if master[0][1] >= demand.room_to:
                return
            master.popleft()
            self._granted[partition] += 1
