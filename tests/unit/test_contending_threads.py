"""Ring, lock, hybrid, shared and partitioned queue, run by threads that contend: nothing is lost, and the order is that
of a serial run."""

import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from compositions.model import StageKind
from lab.benchmarks.contending import (
    FreeQueue,
    HybridQueue,
    KeyedQueue,
    LockOrder,
    Order,
    PartitionedQueue,
    RingOrder,
    SharedQueue,
    Stage,
    run_threads,
)
from lab.papers.prasaad.operators import Operator, serial_run

WORKERS, INPUTS = 4, 400
KEYED = Operator("keyed", StageKind.PARTITIONED, 1e-5, 1.5, partitions=4)
ORDERS: dict[str, Callable[[Callable[[list[int]], None]], Order]] = {
    "lock": LockOrder,
    "ring of 8": lambda downstream: RingOrder(downstream, 8),
    "ring of 1": lambda downstream: RingOrder(downstream, 1),
}


@pytest.fixture(autouse=True)
def switches() -> Iterator[None]:
    """Threads change after each step, as far as the interpreter can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def nothing() -> None:
    """Let another thread run."""
    threading.Event().wait(0)


def outputs(queue: KeyedQueue, make_order: Callable[[Callable[[list[int]], None]], Order], seed: int) -> list[int]:
    """Run one keyed operator, with the producer as a thread of its own."""
    left: list[int] = []
    count = [0]

    def downstream(values: list[int]) -> None:
        left.extend(values)
        count[0] += 1

    stage = Stage(KEYED, queue, make_order(downstream), nothing)

    def produce() -> None:
        for value in range(seed * INPUTS, (seed + 1) * INPUTS):
            stage.add(value)

    producer = threading.Thread(target=produce)
    producer.start()
    run_threads([stage], WORKERS, lambda: count[0] == INPUTS, limit_s=20)
    producer.join()
    return left


@pytest.mark.parametrize("make_queue", [HybridQueue, PartitionedQueue, SharedQueue])
@pytest.mark.parametrize("order", ORDERS)
def test_outputs_are_those_of_a_serial_run(make_queue: Callable[[int], KeyedQueue], order: str) -> None:
    """Theorems 3.1 and 4.1. A ring of one slot makes threads try again and again."""
    for seed in range(3):
        found = outputs(make_queue(KEYED.partitions), ORDERS[order], seed)
        assert found == serial_run([KEYED], range(seed * INPUTS, (seed + 1) * INPUTS))


def test_a_pipeline_of_two_is_a_serial_run_as_well() -> None:
    """Theorem 5.2, with the sender of the first operator as the one producer of the second."""
    operators = [Operator("flat map", StageKind.STATELESS, 1e-5, 5.0), KEYED]
    left: list[int] = []
    count = [0]

    def downstream(values: list[int]) -> None:
        left.extend(values)
        count[0] += 1

    second = Stage(KEYED, HybridQueue(KEYED.partitions), RingOrder(downstream, 64), nothing)

    def on(values: list[int]) -> None:
        for value in values:
            second.add(value)

    first = Stage(operators[0], FreeQueue(), RingOrder(on, 64), nothing)
    for value in range(100):
        first.add(value)
    run_threads([first, second], WORKERS, lambda: count[0] == 500, limit_s=20)
    assert left == serial_run(operators, range(100))


class Torn(SharedQueue):
    """Figure 5: a tuple is taken in one step and its partition locked in another, so its successor may overtake it."""

    def __init__(self, partitions: int) -> None:
        super().__init__(partitions)
        self.first = threading.Event()

    def consume(self, worker: int, operate: Callable[[object], None]) -> None:
        try:
            partition, entry = self._queue.popleft()
        except IndexError:
            return
        if entry[0] == 1:
            self.first.wait(5)  # its successor is through before it locks
        with self._locks[partition]:
            operate(entry)
        if entry[0] != 1:
            self.first.set()


def test_the_oracle_sees_the_race_of_figure_5() -> None:
    single = replace(KEYED, partitions=1)
    left: list[list[int]] = []
    stage = Stage(single, Torn(1), LockOrder(left.append), nothing)
    for value in range(4):
        stage.add(value)
    run_threads([stage], 2, lambda: len(left) == 4, limit_s=20)
    assert [value for values in left for value in values] != serial_run([single], range(4))


def test_a_ring_sends_what_came_while_it_was_let_go() -> None:
    """The second look of figure 4: without it this output would wait for one more to come."""
    left: list[str] = []
    ring = RingOrder(left.append, 4)

    class Late:
        """Lets another thread bring an output between the last look and the release of the flag."""

        def __init__(self, lock: threading.Lock) -> None:
            self._lock, self._once = lock, True

        def acquire(self, blocking: bool) -> bool:
            return self._lock.acquire(blocking=blocking)

        def release(self) -> None:
            if self._once:
                self._once = False
                assert ring.send(2, "b"), "it finds the flag taken, and goes"
            self._lock.release()

    ring._flag = Late(threading.Lock())  # type: ignore[assignment]
    assert ring.send(1, "a")
    assert left == ["a", "b"]
