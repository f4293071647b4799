"""Pools: nobody waits for a stall of the loop, a rest or a call that blocks."""

import threading
from collections.abc import Iterator
from time import monotonic

import pytest

from compositions.model import Stage, all_sequential
from compositions.notation import parse
from lab.simulation.machine import constant_cost
from lab.simulation.pool import SimulatedPool
from recompose import pipeline
from runtime.dispatch.dispatcher import Dispatcher
from runtime.dispatch.outcomes import Delivered, WorkersChanged
from runtime.engine import TICK_S, Engine
from runtime.pools.local import LocalPool, PickleCodec
from runtime.pools.ray.pool import BlockingCalls
from tests.support.waiting import wait_until

PATIENCE_S = 10.0


def test_a_stall_of_the_loop_is_not_the_worker_s_time() -> None:
    stalled_s, entered, go_on = 0.0, threading.Semaphore(0), threading.Semaphore(0)

    def clock() -> float:
        return monotonic() + stalled_s

    def step(number: int) -> int:
        entered.release()
        assert go_on.acquire(timeout=PATIENCE_S)
        return number

    Steps = pipeline((Stage("step", time_limit_s=PATIENCE_S), step))  # noqa: N806 - it is a class
    pool, threads = LocalPool(Steps, clock), threading.active_count()
    engine = Engine(Dispatcher(Steps.stages, parse("Seq", Steps.stages, name="one")), pool)
    engine.start()
    outcomes = []
    while not engine.view().workers:
        outcomes += engine.advance(clock())
    outcomes += engine.advance(clock())
    codec = PickleCodec()
    for number in range(3):
        engine.admit(codec.encode([number]), (clock(),))
    assert entered.acquire(timeout=PATIENCE_S)
    go_on.release()
    wait_until(lambda: not pool._events.empty())
    stalled_s = 60.0  # the sink blocks; the worker answered long before
    outcomes += engine.advance(clock())
    outcomes += engine.advance(clock())
    for _ in range(2):
        go_on.release()
    while not engine.idle:
        outcomes += engine.advance(clock())
    lost = [each.reason for each in outcomes if isinstance(each, WorkersChanged) and each.lost]
    assert lost == []
    assert [each.serial for each in outcomes if isinstance(each, Delivered)] == [0, 1, 2]
    pool.close()
    wait_until(lambda: threading.active_count() <= threads)


LIMITED = (Stage("a", time_limit_s=1.0),)
COST_S = 0.01


def at_rest() -> tuple[Engine, SimulatedPool]:
    """An engine whose worker is there and has nothing to do."""
    pool = SimulatedPool(constant_cost({"a": COST_S}))
    engine = Engine(Dispatcher(LIMITED, all_sequential(LIMITED)), pool)
    engine.start()
    while not engine.view().workers:
        engine.advance(engine.now_s + TICK_S)
    engine.advance(engine.now_s + TICK_S)
    return engine, pool


def test_after_a_rest_the_first_item_is_not_kept_waiting() -> None:
    engine, pool = at_rest()
    assert pool.wait(engine.now_s + 60.0) == []  # nobody asks the engine for a minute
    began_s = engine.now_s
    engine.admit(None, (began_s,))
    (delivered,) = (each for each in engine.advance(began_s + 60.0) if isinstance(each, Delivered))
    assert delivered.at_s == engine.now_s
    assert engine.now_s - began_s < TICK_S


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
