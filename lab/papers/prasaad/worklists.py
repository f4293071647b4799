"""Worklists: the tuples that wait for one operator, and which of them a worker may have.

``Fifo`` serves operators without keys. ``Shared``, ``Partitioned`` and ``Hybrid`` are the three designs for partitioned
operators (Prasaad et al., section 4), ``Owned`` is the dispatcher's. Nothing waits in here: if a real queue makes a
worker wait, for instance for a key's lock, ``take`` returns nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from compositions.errors import RecomposeError
from runtime.dispatch.keyed.partitions import Loads, moves


class Entry(NamedTuple):
    """A tuple that waits."""

    serial: int
    """Its number in the worklist, from 1 on, in the order of arrival."""
    partition: int
    value: int
    origin: int = 0
    """Number of the pipeline's input that it came of."""


@dataclass(frozen=True, slots=True)
class Demand:
    """A worker's request."""

    worker: int
    most: int = 1
    """Tuples that it takes at a time, one behind the other, all of one partition."""
    room_to: int = 2**63
    """The first serial number that the reorder ring has no slot for; a tuple from there on is not taken.

    In the paper a worker takes it, and tries to send what came of it until it can (section 3.2). That cannot go wrong
    with a hybrid queue, where each earlier tuple is at somebody who goes on; with partitioned queues all workers may
    come to try so, while the tuple that they wait for is in a queue that nobody serves.
    """


def taken_from(queue: deque[Entry], demand: Demand) -> list[Entry]:
    """Take the first of a queue, as far as the worker takes them and the ring has room."""
    taken: list[Entry] = []
    while queue and len(taken) < demand.most and queue[0].serial < demand.room_to:
        taken.append(queue.popleft())
    return taken


class Worklist(ABC):
    """Pure. One producer: tuples are put in the order of their serial numbers."""

    name: str

    def __init__(self) -> None:
        self.waiting = 0
        """Tuples put and not taken."""

    @abstractmethod
    def put(self, entry: Entry) -> None: ...

    @abstractmethod
    def take(self, demand: Demand) -> list[Entry]:
        """Return the tuples that the worker runs next, in this order; none if there is none that it may run."""

    @abstractmethod
    def done(self, worker: int, entries: list[Entry]) -> bool:
        """Note that the worker has run what it took; return if it must take again before it may leave the operator."""

    @abstractmethod
    def ready(self, room_to: int) -> bool:
        """Return if a worker that is not at the operator would get something; of ``owned``, if its owner would."""

    def left(self, worker: int) -> None:  # noqa: B027  # most have nothing to let go
        """The worker's turn at the operator is over."""


class Fifo(Worklist):
    """One queue of an operator without keys: for any number of workers, or for one if the operator is stateful."""

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


class Shared(Worklist):
    """One queue for all keys (section 4.1). Taking a tuple and locking its partition is one step, else two workers
    could take two tuples of a partition and lock it the wrong way round. So while the oldest tuple's partition is in
    work, no worker gets a tuple."""

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


class Partitioned(Worklist):
    """A queue per partition, a worker per partition (section 4.2). A worker keeps a partition as long as its turn
    lasts. It takes the one that it had last, if that has tuples, else the one whose head is the oldest: the paper
    leaves open which."""

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
        """Return free partitions with a tuple that may be taken."""
        queues = enumerate(self._queues)
        return [at for at, queue in queues if at not in self._taken and queue and queue[0].serial < room_to]


class Hybrid(Worklist):
    """A queue per partition, and a master queue of partitions in the order of arrival (section 4.3, figure 7).

    A worker draws a partition from the master queue. If no worker has it, it is the worker's; else the tuple is left to
    the worker that has it, by a counter, and the worker draws again. So no partition is at two workers, its tuples are
    taken in order, no worker waits, and tuples are begun almost in the order of arrival.
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
        """Look at the master queue; keys of partitions in work are left to their workers."""
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
        """Draw more of the same partition, if they come next, for a worker that takes several at a time."""
        master = self._master
        while self._granted[partition] < demand.most and master and master[0][0] == partition:
            if master[0][1] >= demand.room_to:
                return
            master.popleft()
            self._granted[partition] += 1


class Owned(Worklist):
    """A queue per partition; each partition has an owner, who alone takes its tuples, the oldest of all its queues
    first. Where the load is uneven, partitions get another owner by the rule of the dispatcher
    (``runtime.dispatch.keyed.partitions``), whose design this is."""

    name = "owned"

    def __init__(self, partitions: int, workers: int) -> None:
        super().__init__()
        self._queues: list[deque[Entry]] = [deque() for _ in range(partitions)]
        self._owners = [f"{each % workers}" for each in range(partitions)]
        self._workers = [f"{each}" for each in range(workers)]
        self._loads = Loads(partitions)
        self._at: dict[int, int] = {}
        """Partition by worker, while it is in work: a new owner waits for it."""

    def put(self, entry: Entry) -> None:
        self._queues[entry.partition].append(entry)
        self.waiting += 1
        self._loads.note(bytes((entry.partition,)))
        if self._loads.due:
            owned = {each: [at for at, owner in enumerate(self._owners) if owner == each] for each in self._workers}
            for partition, owner in moves(owned, self._loads.look()).items():
                self._owners[partition] = owner

    def take(self, demand: Demand) -> list[Entry]:
        mine = [at for at in self._open(demand.room_to) if self._owners[at] == f"{demand.worker}"]
        if not mine:
            return []
        partition = min(mine, key=lambda at: self._queues[at][0].serial)
        self._at[demand.worker] = partition
        taken = taken_from(self._queues[partition], demand)
        self.waiting -= len(taken)
        return taken

    def done(self, worker: int, entries: list[Entry]) -> bool:
        del self._at[worker]
        return False

    def ready(self, room_to: int) -> bool:
        return bool(self._open(room_to))

    def _open(self, room_to: int) -> list[int]:
        taken = self._at.values()
        return [at for at, queue in enumerate(self._queues) if queue and queue[0].serial < room_to and at not in taken]


QueueName = Literal["hybrid", "partitioned", "shared", "owned"]
QUEUE_NAMES: tuple[QueueName, ...] = get_args(QueueName)
_MAKE: Mapping[str, Callable[[int, int], Worklist]] = {
    "hybrid": lambda partitions, workers: Hybrid(partitions),
    "partitioned": lambda partitions, workers: Partitioned(partitions),
    "shared": lambda partitions, workers: Shared(),
    "owned": Owned,
}


def make_worklist(name: str, partitions: int, workers: int = 1) -> Worklist:
    """Make a worklist for a partitioned operator. Raises: RecomposeError for an unknown name or no partition."""
    make = _MAKE.get(name)
    if make is None:
        raise RecomposeError(f"unknown queue {name!r}; there are {', '.join(_MAKE)}")
    if partitions < 1:
        raise RecomposeError(f"partitions is {partitions}; it must be at least 1")
    return make(partitions, workers)
