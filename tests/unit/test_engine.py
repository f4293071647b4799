"""The engine: what waits for a pool, and for how long."""

from collections.abc import Sequence

from compositions.model import Stage, all_sequential
from lab.simulation.invariants import CheckedDispatcher
from lab.simulation.machine import constant_cost
from lab.simulation.pool import SimulatedPool
from runtime.dispatch.dispatcher import Dispatcher
from runtime.dispatch.events import Event
from runtime.dispatch.instructions import Task
from runtime.dispatch.outcomes import Delivered
from runtime.engine import TICK_S, Engine

STAGES = (Stage("a", time_limit_s=1.0),)
COST_S = 0.01


def at_rest() -> tuple[Engine, SimulatedPool]:
    """An engine whose worker is there and has nothing to do."""
    pool = SimulatedPool(constant_cost({"a": COST_S}))
    engine = Engine(Dispatcher(STAGES, all_sequential(STAGES)), pool)
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


class GatheringPool(SimulatedPool):
    """Tells of two events at a time, as a poll does where two workers are done, or one twice."""

    sent: Sequence[tuple[str, int]] = ()
    """To whom, and how many tasks."""

    def send(self, worker: str, tasks: Sequence[Task]) -> None:
        self.sent = (*self.sent, (worker, len(tasks)))
        super().send(worker, tasks)

    def wait(self, until_s: float) -> list[Event]:
        return [*super().wait(until_s), *super().wait(until_s)]


def test_what_came_together_is_answered_by_one_call_a_worker() -> None:
    stages = (Stage("a"), Stage("b"))
    pool = GatheringPool(constant_cost({"a": 1e-4, "b": 1e-4}))
    engine = Engine(CheckedDispatcher(stages, all_sequential(stages)), pool)
    engine.start()
    while len(engine.view().workers) < 2:
        engine.advance(engine.now_s + TICK_S)
    serials: list[int] = []
    for number in range(60):
        while not engine.has_room:
            serials += delivered(engine)
        assert engine.admit(None, (engine.now_s,)) == number
    while not engine.idle:
        serials += delivered(engine)
    assert serials == list(range(60))
    assert {count for _, count in pool.sent} == {1, 2}
    assert len(pool.sent) < sum(count for _, count in pool.sent) == 120


def delivered(engine: Engine) -> list[int]:
    return [each.serial for each in engine.advance(engine.now_s + TICK_S) if isinstance(each, Delivered)]
