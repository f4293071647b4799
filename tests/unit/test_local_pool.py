"""The local pool: whose time a result carries, and what becomes of workers that nobody waits for."""

import threading
from collections.abc import Iterator
from time import monotonic

import pytest

from apps.contract import App
from compositions.model import Stage
from compositions.notation import parse
from runtime.dispatch.dispatcher import Dispatcher
from runtime.dispatch.events import WorkerJoined
from runtime.dispatch.outcomes import Delivered, WorkersChanged
from runtime.engine import Engine
from runtime.pools.local import LocalPool, PickleCodec

PATIENCE_S = 10.0


class Clock:
    """The real one, and what a test adds to it."""

    def __init__(self) -> None:
        self.stalled_s = 0.0

    def __call__(self) -> float:
        return monotonic() + self.stalled_s


class Steps(App):
    """Its stage says when it is entered, and goes on when it is told to."""

    name = "steps"
    stages = (Stage("step", time_limit_s=PATIENCE_S),)

    entered = threading.Semaphore(0)
    go_on = threading.Semaphore(0)

    def step(self, number: int) -> int:
        self.entered.release()
        assert self.go_on.acquire(timeout=PATIENCE_S)
        return number


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def pool(clock: Clock) -> Iterator[LocalPool]:
    pool = LocalPool(Steps, clock)
    threads = threading.active_count()
    yield pool
    pool.close()
    for thread in [each for each in threading.enumerate() if each.name.startswith("recompose-w")]:
        thread.join(PATIENCE_S)
    assert threading.active_count() <= threads


def said(pool: LocalPool) -> None:
    """Returns when a worker has said something that nobody has heard yet."""
    while pool._events.empty():
        pass


def test_a_stall_of_the_loop_is_not_the_worker_s_time(pool: LocalPool, clock: Clock) -> None:
    engine = Engine(Dispatcher(Steps.stages, parse("Seq", Steps.stages, name="one")), pool)
    engine.start()
    outcomes = []
    while not engine.view().workers:
        outcomes += engine.advance(clock())
    outcomes += engine.advance(clock())
    codec = PickleCodec()
    for number in range(3):
        engine.admit(codec.encode([number]), (clock(),))
    assert Steps.entered.acquire(timeout=PATIENCE_S)
    Steps.go_on.release()
    said(pool)
    clock.stalled_s += 60.0  # the sink blocks; the worker answered long before
    outcomes += engine.advance(clock())
    outcomes += engine.advance(clock())
    for _ in range(2):
        Steps.go_on.release()
    while not engine.idle:
        outcomes += engine.advance(clock())
    lost = [each.reason for each in outcomes if isinstance(each, WorkersChanged) and each.lost]
    assert lost == []
    assert [each.serial for each in outcomes if isinstance(each, Delivered)] == [0, 1, 2]


def test_events_carry_the_time_at_which_they_are_heard(pool: LocalPool, clock: Clock) -> None:
    pool.start(1)
    said(pool)
    clock.stalled_s += 60.0
    heard_s = clock()
    (joined,) = pool.wait(heard_s)
    assert isinstance(joined, WorkerJoined)
    assert joined.at_s >= heard_s


def test_a_worker_that_was_ended_while_it_was_set_up_says_nothing_more(clock: Clock) -> None:
    entered, go_on = threading.Event(), threading.Event()

    class Slow(Steps):
        def setup(self) -> None:
            entered.set()
            go_on.wait(PATIENCE_S)
            raise RuntimeError("too late to matter")

    pool = LocalPool(Slow, clock)
    pool.start(1)
    assert entered.wait(PATIENCE_S)
    pool.end("w1", kill=True)
    go_on.set()
    said(pool)
    assert pool.wait(clock()) == []
    pool.close()
