"""Ways to send, by threads themselves: whatever they do at once, the order holds. Speeds:
``python -m benchmarks.ordered_threads``."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from benchmarks.ordered_threads import WAYS, LockBased, NonBlocking, sent


@pytest.mark.parametrize("way", WAYS)
def test_what_threads_send_leaves_in_order(way: str) -> None:
    assert sent(way, threads=4, tuples=400, work_us=3.0, send_us=3.0).per_s > 0


def test_who_finds_the_lock_taken_waits_and_is_counted() -> None:
    left: list[int] = []
    ring = LockBased(left.append)
    ring.offer(1)
    assert ring.waited == 0
    ring.lock.acquire()
    late = threading.Thread(target=ring.offer, args=(2,))
    late.start()
    assert left == [1]
    ring.lock.release()
    late.join()
    assert left == [1, 2]


class LateFlag:
    """Just before it is let go for the first time, an output comes."""

    def __init__(self, late: Callable[[], None]) -> None:
        self._flag, self._late = threading.Lock(), [late]

    def acquire(self, blocking: bool) -> bool:
        return self._flag.acquire(blocking)

    def release(self) -> None:
        while self._late:
            self._late.pop()()
        self._flag.release()


def test_an_output_that_comes_as_the_flag_is_let_go_does_not_wait_for_the_next() -> None:
    """Its thread finds the flag taken and goes on: who lets go looks at the slot once more."""
    left: list[int] = []
    ring = NonBlocking(left.append)
    ring.lock = LateFlag(lambda: ring.offer(2))  # type: ignore[assignment]
    ring.offer(1)
    assert left == [1, 2]
