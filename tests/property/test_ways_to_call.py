"""Bundles of different sizes in virtual time. Random streams of apps with filters, states and stages that wait are in
``test_played_streams.py``, the pools in ``tests/contract/test_ways_to_call.py``."""

from compositions.model import Composition, Group
from lab.benchmarks.mixed.apps.shaped import Kind, Shape, Shaped
from lab.benchmarks.mixed.drawn import Out, plain_loop
from lab.simulation.invariants import CheckedDispatcher
from lab.simulation.machine import Cost, Machine
from lab.simulation.pool import SimulatedPool
from runtime.dispatch.outcomes import Delivered
from runtime.dispatch.settings import DispatcherSettings
from runtime.engine import Engine
from runtime.pools.keyed import routing
from runtime.pools.local import PickleCodec


def test_a_stage_with_state_sees_bundles_in_order_also_if_a_stage_of_its_worker_waits() -> None:
    """A small bundle that followed a large one overtook it in virtual time."""
    kinds: tuple[Kind, ...] = ("tally", "wait", "plain")
    app, codec, out = Shaped(Shape(kinds=kinds)), PickleCodec(), list[Out]()
    composition = Composition("one", (Group(tuple(stage.name for stage in app.stages)),))
    pool = SimulatedPool(lambda *_: Cost(0.001, 0.001), Machine(start_s=0.01), lambda: Shaped(Shape(kinds=kinds)))
    engine = Engine(CheckedDispatcher(app.stages, composition, DispatcherSettings()), pool)
    engine.start()
    encode, first = routing(app, codec.encode), 0
    for count in (2, 10, 2):
        engine.admit(encode(list(range(first, first + count))), (engine.now_s,) * count)
        first += count
    while not engine.idle:
        for each in engine.advance(engine.now_s + 0.02):
            if isinstance(each, Delivered):
                out += codec.decode(each.payload, each.start, each.start + each.count)
    engine.close()
    assert out == plain_loop(kinds, range(14))
