"""Ring, lock, hybrid, shared and partitioned queue, run by threads that contend: nothing is lost, and the order is that
of a serial run."""

import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from compositions.model import StageKind
from lab.benchmarks.contending import (
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
