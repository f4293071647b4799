"""Worklists and ways to send, on real cores: whatever they do at once, the order holds. Speeds:
``python -m benchmarks.ordered_threads``."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from benchmarks.ordered_threads import WAYS, Crew, NonBlocking, keyed_per_s, sent_per_s
from service.experiments.ordered.worklists import QUEUE_NAMES


@pytest.mark.parametrize("way", WAYS)
def test_what_threads_send_leaves_in_order(way: str) -> None:
    assert sent_per_s(way, threads=4, tuples=400, work_us=3.0, send_us=3.0) > 0


def test_no_partition_is_at_two_workers() -> None:
    crew = Crew(2, 50.0)
    try:
        assert all(keyed_per_s(queue, crew, tuples=100, mean=0.5, sigma=0.2) > 0 for queue in QUEUE_NAMES)
    finally:
        crew.close()


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
