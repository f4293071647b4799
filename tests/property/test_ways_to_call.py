"""Apps of random shapes with filters, flat maps, batch stages, states and stages that wait: whatever the composition,
the size of bundles, the loss of workers and the switches, what comes out is what a plain loop gives."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from compositions.model import Composition, Group
from lab.benchmarks.mixed.apps.shaped import Kind, Shape, Shaped, stages_of
from lab.benchmarks.mixed.drawn import Out, drawn_composition, drawn_kinds, plain_loop
from lab.simulation.invariants import CheckedDispatcher
from lab.simulation.machine import Cost, Machine
from lab.simulation.pool import SimulatedPool
from runtime.dispatch.events import SwitchStyle
from runtime.dispatch.outcomes import Delivered
from runtime.dispatch.settings import DispatcherSettings
from runtime.engine import Engine
from runtime.pools.keyed import routing
from runtime.pools.local import LocalPool, PickleCodec
from tests.support.examples import examples


class Run:
    """An engine on a pool. Losses never make a dead letter here: it is the stages alone that do."""

    def __init__(self, pool: LocalPool | SimulatedPool, app: Shaped, composition: Composition) -> None:
        limits = DispatcherSettings(losses=100, buffer_items=1000)
        self.pool, self.codec = pool, PickleCodec()
        self.encode = routing(app, self.codec.encode)
        self.engine = Engine(CheckedDispatcher(app.stages, composition, limits), pool)
        self.out: list[Out] = []
        self.admitted = 0
        self.engine.start()

    def admit(self, count: int) -> None:
        numbers = list(range(self.admitted, self.admitted + count))
        self.engine.admit(self.encode(numbers), (self.engine.now_s,) * count)
        self.admitted += count

    def advance(self) -> None:
        for outcome in self.engine.advance(self.engine.now_s + 0.02):
            if isinstance(outcome, Delivered):
                self._take(outcome)

    def _take(self, out: Delivered) -> None:
        assert out.serial == len(self.out), "out of order"
        if out.error is not None:
            self.out.append(None)
        else:
            self.out += self.codec.decode(out.payload, out.start, out.start + out.count)

    def lose(self, pick: int) -> None:
        workers = self.engine.view().workers
        if workers:
            self.pool.lose(workers[pick % len(workers)].worker)

    def finish(self) -> None:
        for _ in range(20_000):
            if self.engine.idle and not self.engine.view().switching:
                return
            self.advance()
        raise AssertionError(f"stuck: {self.engine.view()}")


class Drawn:
    """An app, and compositions of it."""

    def __init__(self, data: st.DataObject) -> None:
        self.chance: Random = data.draw(st.randoms())
        self.kinds = drawn_kinds(self.chance)
        self.stages = stages_of(self.kinds)

    def app(self) -> Shaped:
        return Shaped(Shape(kinds=self.kinds))

    def composition(self) -> Composition:
        return drawn_composition(self.chance, self.stages)


def check(run: Run, drawn: Drawn, data: st.DataObject) -> None:
    try:
        for action in data.draw(st.lists(st.sampled_from(["admit", "admit", "go on", "lose", "switch"]), max_size=12)):
            if action == "admit":
                run.admit(data.draw(st.integers(1, 50)))
            elif action == "lose":
                run.lose(data.draw(st.integers(0, 5)))
            elif action == "switch":
                run.engine.switch(drawn.composition(), data.draw(st.sampled_from(list(SwitchStyle))))
            else:
                run.advance()
        run.finish()
        assert run.out == plain_loop(drawn.kinds, range(run.admitted))
    finally:
        run.engine.close()


@examples(60)
@given(st.data())
def test_in_virtual_time(data: st.DataObject) -> None:
    drawn, cost = Drawn(data), Cost(0.001, 0.001)
    pool = SimulatedPool(lambda stage, serial: cost, Machine(start_s=0.01), drawn.app)
    check(Run(pool, drawn.app(), drawn.composition()), drawn, data)


@examples(25)
@given(st.data())
def test_in_threads(data: st.DataObject) -> None:
    drawn = Drawn(data)
    check(Run(LocalPool(drawn.app), drawn.app(), drawn.composition()), drawn, data)


def test_a_stage_with_state_sees_bundles_in_order_also_if_a_stage_of_its_worker_waits() -> None:
    """A small bundle that followed a large one overtook it in virtual time."""
    kinds: tuple[Kind, ...] = ("tally", "wait", "plain")
    app, cost = Shaped(Shape(kinds=kinds)), Cost(0.001, 0.001)
    composition = Composition("one", (Group(tuple(stage.name for stage in app.stages)),))
    pool = SimulatedPool(lambda stage, serial: cost, Machine(start_s=0.01), lambda: Shaped(Shape(kinds=kinds)))
    run = Run(pool, app, composition)
    for count in (2, 10, 2):
        run.admit(count)
    run.finish()
    run.engine.close()
    assert run.out == plain_loop(kinds, range(14))
