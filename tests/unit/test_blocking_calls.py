"""Calls that may block keep nobody waiting."""

import threading
from collections.abc import Iterator

import pytest

from runtime.pools.ray.pool import BlockingCalls

PATIENCE_S = 10.0


@pytest.fixture
def woken() -> threading.Semaphore:
    return threading.Semaphore(0)


@pytest.fixture
def calls(woken: threading.Semaphore) -> Iterator[BlockingCalls]:
    calls = BlockingCalls(woken.release)
    yield calls
    calls.close(PATIENCE_S)


def test_a_call_that_raises_is_told_and_ends_no_others(calls: BlockingCalls, woken: threading.Semaphore) -> None:
    heard: list[object] = []
    calls.ask(lambda: 1 // 0, heard.append, lambda error: heard.append(type(error)))
    calls.ask(lambda: 1 // 0, heard.append)
    calls.ask(lambda: 2, heard.append)
    for _ in range(3):
        assert woken.acquire(timeout=PATIENCE_S)
    calls.answer()
    assert heard == [ZeroDivisionError, 2]


def test_closing_makes_the_calls_that_were_asked_for_but_waits_no_longer_than_it_was_told() -> None:
    made: list[int] = []
    calls = BlockingCalls(lambda: None)
    calls.ask(lambda: made.append(1))
    calls.close(PATIENCE_S)
    assert made == [1]
    stuck, entered, go_on = BlockingCalls(lambda: None), threading.Event(), threading.Event()
    stuck.ask(lambda: entered.set() or go_on.wait(PATIENCE_S))
    assert entered.wait(PATIENCE_S)
    stuck.close(0.0)
    go_on.set()
    stuck.close(PATIENCE_S)
