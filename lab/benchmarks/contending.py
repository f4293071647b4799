"""The concurrent structures of Prasaad et al. as threads use them, each of which may run at any moment.

Python has no atomic integer: ``fetch_add`` and ``test_and_set`` are here what a lock that is held for that one step
makes of them, and queues are deques, whose operations are atomic with and without the interpreter's lock.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from lab.papers.prasaad.operators import Operator

Send = Callable[[Any], None]


class Counter:
    """An integer with an atomic ``fetch_add``."""

    __slots__ = ("_lock", "value")

    def __init__(self) -> None:
        self.value = 0
        self._lock = threading.Lock()

    def fetch_add(self, step: int) -> int:
        """Add ``step`` and return the value before."""
        with self._lock:
            before = self.value
            self.value = before + step
        return before


class LockOrder:
    """Sends outputs by serial number, from 1, under one lock around buffer, counter and sending (figure 2)."""

    def __init__(self, downstream: Send) -> None:
        self.downstream = downstream
        self._lock, self._next, self._buffer = threading.Lock(), 1, dict[int, Any]()

    def send(self, serial: int, output: Any) -> bool:
        with self._lock:
            self._buffer[serial] = output
            while self._next in self._buffer:
                self.downstream(self._buffer.pop(self._next))
                self._next += 1
        return True


class RingOrder:
    """Figure 4: a thread that finds another one sending leaves its output in the ring, and goes on."""

    def __init__(self, downstream: Send, slots: int) -> None:
        self.downstream = downstream
        self._slots: list[tuple[Any] | None] = [None] * slots
        self._next = 1
        self._flag = threading.Lock()

    def send(self, serial: int, output: Any) -> bool:
        """Take an output. Return False if there is no room yet, so that the thread must try again."""
        room = self._next <= serial < self._next + len(self._slots)
        if room:
            self._slots[serial % len(self._slots)] = (output,)
        while self._ready is not None and self._flag.acquire(blocking=False):
            while (found := self._ready) is not None:
                self.downstream(found[0])
                self._slots[self._next % len(self._slots)] = None
                self._next += 1
            self._flag.release()  # and look again: an output that came since would otherwise wait for the next thread
        return room

    @property
    def _ready(self) -> tuple[Any] | None:
        return self._slots[self._next % len(self._slots)]


Order = LockOrder | RingOrder


class KeyedQueue(ABC):
    """Waiting tuples by partition. One thread adds, all threads consume."""

    @abstractmethod
    def add(self, partition: int, entry: Any) -> None: ...

    @abstractmethod
    def consume(self, worker: int, operate: Send) -> None:
        """Process tuples until there is none for this worker; those of a partition in order, never two at a time."""


class FreeQueue(KeyedQueue):
    """The shared worklist of an operator without keys: any worker takes the next tuple."""

    def __init__(self) -> None:
        self._queue = deque[Any]()

    def add(self, partition: int, entry: Any) -> None:
        self._queue.append(entry)

    def consume(self, worker: int, operate: Send) -> None:
        while True:
            try:
                entry = self._queue.popleft()
            except IndexError:
                return
            operate(entry)


class HybridQueue(KeyedQueue):
    """Figure 7, line by line."""

    def __init__(self, partitions: int) -> None:
        self._queues = [deque[Any]() for _ in range(partitions)]
        self._counts = [Counter() for _ in range(partitions)]
        self._master = deque[int]()

    def add(self, partition: int, entry: Any) -> None:
        self._queues[partition].append(entry)
        self._master.append(partition)

    def consume(self, worker: int, operate: Send) -> None:
        while True:
            try:
                partition = self._master.popleft()
            except IndexError:
                return
            count = self._counts[partition]
            if count.fetch_add(1) == 0:
                while True:
                    operate(self._queues[partition].popleft())
                    if count.fetch_add(-1) <= 1:
                        break


class PartitionedQueue(KeyedQueue):
    """Section 4.2: as many partitions as workers, each with a queue, which its worker serves."""

    def __init__(self, partitions: int) -> None:
        self._queues = [deque[Any]() for _ in range(partitions)]

    def add(self, partition: int, entry: Any) -> None:
        self._queues[partition].append(entry)

    def consume(self, worker: int, operate: Send) -> None:
        queue = self._queues[worker]
        while queue:
            operate(queue.popleft())


class SharedQueue(KeyedQueue):
    """Section 4.1: taking a tuple and locking its partition is one step, under one lock for all."""

    def __init__(self, partitions: int) -> None:
        self._queue = deque[tuple[int, Any]]()
        self._taking = threading.Lock()
        self._locks = [threading.Lock() for _ in range(partitions)]

    def add(self, partition: int, entry: Any) -> None:
        self._queue.append((partition, entry))

    def consume(self, worker: int, operate: Send) -> None:
        while True:
            with self._taking:
                if not self._queue:
                    return
                partition, entry = self._queue.popleft()
                self._locks[partition].acquire()
            try:
                operate(entry)
            finally:
                self._locks[partition].release()


class Stage:
    """An operator with its queue and its reordering: ``add`` by one thread, ``consume`` by all."""

    def __init__(self, operator: Operator, queue: KeyedQueue, order: Order, work: Callable[[], None]) -> None:
        """``work``: computes for the duration of a tuple."""
        self.operator, self._queue, self._order, self._work = operator, queue, order, work
        self._states = [0] * operator.partitions
        self._serial = 0

    def add(self, value: int) -> None:
        self._serial += 1
        self._queue.add(self.operator.partition(value), (self._serial, value))

    def consume(self, worker: int) -> None:
        self._queue.consume(worker, self._operate)

    def _operate(self, entry: tuple[int, int]) -> None:
        serial, value = entry
        partition = self.operator.partition(value)
        state = self._states[partition]
        self._work()  # with two threads on one partition, changes of its state would be lost
        outputs, self._states[partition] = self.operator.outputs(value, state)
        while not self._order.send(serial, outputs):
            time.sleep(0)


def run_threads(stages: Sequence[Stage], workers: int, done: Callable[[], bool], limit_s: float = 60.0) -> float:
    """Let threads consume from the last stage with work on until all is done; return how long it took, in seconds.

    Raises: TimeoutError when it is not done after ``limit_s``; what a thread raised.
    """
    start, errors = threading.Barrier(workers + 1), list[BaseException]()
    end_s = time.monotonic() + limit_s

    def work(number: int) -> None:
        start.wait()
        try:
            while not done():
                for stage in reversed(stages):
                    stage.consume(number)
                time.sleep(1e-5)  # the producer is a thread as well
                if time.monotonic() > end_s or errors:
                    raise TimeoutError(f"not done after {limit_s:g} s")
        except BaseException as error:  # otherwise an exception of a thread would be lost
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(workers)]
    for thread in threads:
        thread.start()
    start.wait()
    began_s = time.perf_counter()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return time.perf_counter() - began_s
