"""The engine: what waits for a pool, and for how long."""

from __future__ import annotations

from compositions.model import Stage, all_sequential
from runtime.dispatch.dispatcher import Dispatcher
from runtime.dispatch.outcomes import Delivered
from runtime.engine import TICK_S, Engine
from runtime.pools.simulated import SimulatedPool
from runtime.pools.simulated_machine import constant_cost

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
