"""Worklists: the tuples that wait for one operator, and the choice of the tuple that a worker may take.

``Fifo`` serves operators without keys. ``Partitioned`` and ``Hybrid`` are designs for partitioned operators (Prasaad et
al., section 4), ``Owned`` is the dispatcher's design. Threads run the shared queue, which the paper does not measure
(``lab/benchmarks/contending.py``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple, get_args

from compositions.errors import RecomposeError
from runtime.dispatch.keyed.partitions import Loads, moves


class Entry(NamedTuple):
    """A waiting tuple."""

    serial: int
    """Its number in the worklist, from 1 on, in the order of arrival."""
    partition: int
    value: int
    origin: int = 0
    """Number of the pipeline's input from which it comes."""


class Worklist(ABC):
    """Pure. There is one producer: tuples are put in the order of their serial numbers.

    ``room_to`` is the first serial number without a slot in the reorder ring; later tuples are not taken. In the paper
    a worker takes such a tuple, and tries to send its outputs until it can (section 3.2). With a hybrid queue this
    always ends, because each earlier tuple is at a worker that makes progress. With partitioned queues, all workers may
    end up trying, while the tuple for which they wait is in a queue that no worker serves.
    """

    name: str

    def __init__(self) -> None:
        self.waiting = 0
        """Number of tuples that were put and not taken."""

    @abstractmethod
    def put(self, entry: Entry) -> None: ...

    @abstractmethod
    def take(self, worker: int, room_to: int) -> Entry | None:
        """Return the tuple that the worker runs next; None: there is none that it may run."""

    @abstractmethod
    def ready(self, room_to: int) -> bool:
        """Return whether a worker outside the operator would get a tuple; for ``owned``, whether the owner would."""

    def done(self, worker: int, partition: int) -> bool:
        """Record that the worker has run its tuple; return whether it must take again before it may leave."""
        return False

    def left(self, worker: int) -> None:  # noqa: B027  # most have nothing to let go
        """End the worker's turn at the operator."""


class Fifo(Worklist):
    """One queue of an operator without keys: for any number of workers, or for one if the operator is stateful."""

    name = "fifo"

    def __init__(self) -> None:
        super().__init__()
        self._queue: deque[Entry] = deque()

    def put(self, entry: Entry) -> None:
        self._queue.append(entry)
        self.waiting += 1

    def take(self, worker: int, room_to: int) -> Entry | None:
        if not self.ready(room_to):
            return None
        self.waiting -= 1
        return self._queue.popleft()

    def ready(self, room_to: int) -> bool:
        return bool(self._queue) and self._queue[0].serial < room_to


class _ByPartition(Worklist):
    """A queue per partition; a partition is at one worker at a time."""

    def __init__(self, partitions: int) -> None:
        super().__init__()
        self._queues: list[deque[Entry]] = [deque() for _ in range(partitions)]
        self._at: dict[int, int] = {}
        """Partition by worker."""

    def put(self, entry: Entry) -> None:
        self._queues[entry.partition].append(entry)
        self.waiting += 1

    def ready(self, room_to: int) -> bool:
        return bool(self._open(room_to))

    def _open(self, room_to: int) -> list[int]:
        """Return partitions that no worker has, with a tuple that may be taken."""
        had = self._at.values()
        return [at for at, queue in enumerate(self._queues) if queue and queue[0].serial < room_to and at not in had]

    def _oldest(self, partitions: list[int]) -> int | None:
        return min(partitions, key=lambda at: self._queues[at][0].serial, default=None)

    def _pop(self, partition: int) -> Entry:
        self.waiting -= 1
        return self._queues[partition].popleft()


class Partitioned(_ByPartition):
    """A queue per partition, a worker per partition (section 4.2). A worker keeps a partition as long as its turn
    lasts. It takes the one that it had last, if that has tuples, else the one whose head is the oldest: the paper
    leaves open which."""

    name = "partitioned"

    def __init__(self, partitions: int) -> None:
        super().__init__(partitions)
        self._last: dict[int, int] = {}

    def take(self, worker: int, room_to: int) -> Entry | None:
        if worker not in self._at:
            free, last = self._open(room_to), self._last.get(worker)
            partition = last if last in free else self._oldest(free)
            if partition is None:
                return None
            self._at[worker] = self._last[worker] = partition
        queue = self._queues[self._at[worker]]
        return self._pop(self._at[worker]) if queue and queue[0].serial < room_to else None

    def left(self, worker: int) -> None:
        self._at.pop(worker, None)


class Hybrid(_ByPartition):
    """A queue per partition, and a master queue of partitions in the order of arrival (section 4.3, figure 7).

    A worker draws a partition from the master queue. If no worker has it, it is the worker's; else the tuple is left to
    the worker that has it, by a counter, and the worker draws again. So no partition is at two workers, its tuples are
    taken in order, no worker waits, and tuples are begun almost in the order of arrival.
    """

    name = "hybrid"

    def __init__(self, partitions: int) -> None:
        super().__init__(partitions)
        self._master: deque[tuple[int, int]] = deque()
        """Partition and serial number, oldest first."""
        self._granted = [0] * partitions
        """``count`` in the paper: tuples of a partition that its worker has or must take; 0: it has no worker."""

    def put(self, entry: Entry) -> None:
        super().put(entry)
        # the key comes last, so that a worker that draws it finds the tuple
        self._master.append((entry.partition, entry.serial))

    def take(self, worker: int, room_to: int) -> Entry | None:
        if worker not in self._at:
            if not self.ready(room_to):
                return None
            self._at[worker], _ = self._master.popleft()
            self._granted[self._at[worker]] = 1
        return self._pop(self._at[worker])

    def done(self, worker: int, partition: int) -> bool:
        self._granted[partition] -= 1
        if not self._granted[partition]:
            del self._at[worker]
        return self._granted[partition] > 0

    def ready(self, room_to: int) -> bool:
        """Look at the master queue; keys of partitions in work are left to their workers."""
        master = self._master
        while master and master[0][1] < room_to and self._granted[master[0][0]]:
            self._granted[master.popleft()[0]] += 1
        return bool(master) and master[0][1] < room_to


class Owned(_ByPartition):
    """A queue per partition. Each partition has an owner, which alone takes its tuples, the oldest of all its queues
    first. Under uneven load, partitions get another owner by the rule of the dispatcher
    (``runtime.dispatch.keyed.partitions``), whose design this is; an owner first ends a tuple in work."""

    name = "owned"

    def __init__(self, partitions: int, workers: int) -> None:
        super().__init__(partitions)
        self._owners = [f"{each % workers}" for each in range(partitions)]
        self._workers = [f"{each}" for each in range(workers)]
        self._loads = Loads(partitions)

    def put(self, entry: Entry) -> None:
        super().put(entry)
        self._loads.note(bytes((entry.partition,)))
        if self._loads.due:
            owned = {each: [at for at, owner in enumerate(self._owners) if owner == each] for each in self._workers}
            for partition, owner in moves(owned, self._loads.look()).items():
                self._owners[partition] = owner

    def take(self, worker: int, room_to: int) -> Entry | None:
        partition = self._oldest([at for at in self._open(room_to) if self._owners[at] == f"{worker}"])
        if partition is None:
            return None
        self._at[worker] = partition
        return self._pop(partition)

    def done(self, worker: int, partition: int) -> bool:
        del self._at[worker]
        return False


QueueName = Literal["hybrid", "partitioned", "owned"]
QUEUE_NAMES: tuple[QueueName, ...] = get_args(QueueName)
_MAKE: Mapping[str, Callable[[int, int], Worklist]] = {
    "hybrid": lambda partitions, workers: Hybrid(partitions),
    "partitioned": lambda partitions, workers: Partitioned(partitions),
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
