"""Fewer live workers than groups: they are shared over the groups in time, and the stream goes on."""

from itertools import pairwise

import pytest

from apps.contract import App
from compositions.errors import RecomposeError
from compositions.model import Loads, Stage, StageKind
from compositions.notation import parse
from lab.simulation.invariants import CheckedDispatcher
from lab.simulation.machine import Machine, constant_cost
from lab.simulation.pool import SimulatedPool
from recompose import run
from runtime.dispatch.events import WorkerStartFailed
from runtime.dispatch.outcomes import Delivered
from runtime.dispatch.settings import DispatcherSettings
from runtime.engine import Engine

STAGES = (Stage("a"), Stage("b"), Stage("c", StageKind.STATEFUL), Stage("d"))


class FewWorkers(SimulatedPool):
    """Of all workers asked for, the first few come, and no others."""

    def __init__(self, coming: int) -> None:
        super().__init__(constant_cost({stage.name: 0.1 for stage in STAGES}, wait=True), Machine(cores=8))
        self._coming = coming

    def start(self, count: int, loads: Loads = ()) -> None:
        super().start(min(count, self._coming), loads)
        for _ in range(max(0, count - self._coming)):
            self._time.at(self.now_s(), lambda: WorkerStartFailed(self.now_s(), "no room for more", loads=loads))
        self._coming -= min(count, self._coming)


def delivered_times(engine: Engine, pool: SimulatedPool, lose_at_s: list[float], until_s: float) -> list[float]:
    """When results came out, from a source that always has more; at ``lose_at_s`` the first worker dies."""
    times = []
    while engine.now_s < until_s:
        while engine.has_room:
            engine.admit(None, (engine.now_s,))
        if lose_at_s and engine.now_s >= lose_at_s[0]:
            lose_at_s.pop(0)
            pool.lose(engine.view().workers[0].worker)
        times += [each.at_s for each in engine.advance(engine.now_s + 0.5) if isinstance(each, Delivered)]
    return times


def longest_gap_s(times: list[float], from_s: float, until_s: float) -> float:
    return max(later - earlier for earlier, later in pairwise([from_s, *times, until_s]))


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_four_groups_go_on_with_fewer_workers(workers: int):
    pool = FewWorkers(workers)
    engine = Engine(CheckedDispatcher(STAGES, parse("Seq-Seq-Seq-Seq", STAGES, name="four")), pool)
    engine.start()
    times = delivered_times(engine, pool, [], until_s=40.0)
    assert engine.view().short_of_workers
    assert longest_gap_s(times, 1.0, 40.0) <= 2.0
    assert len(times) / 39 >= 0.8 * workers / (2 if workers == 3 else 1) / 0.4


def test_workers_that_die_leave_no_gap_and_the_view_says_what_it_is():
    pool = FewWorkers(7)
    settings = DispatcherSettings(spares=1)
    engine = Engine(CheckedDispatcher(STAGES, parse("Par*2-Par*2-Seq-Seq", STAGES, name="six"), settings), pool)
    engine.start()
    before = delivered_times(engine, pool, [], until_s=5.0)
    assert not engine.view().short_of_workers
    after = delivered_times(engine, pool, [5.0, 5.0, 5.5, 6.0], until_s=30.0)
    assert len(engine.view().workers) == 3
    assert engine.view().short_of_workers
    assert longest_gap_s(after, before[-1], 30.0) <= 2.0


def test_each_class_gets_a_worker_before_another_gets_its_second():
    stages = (Stage("a"), Stage("b"), Stage("c", setup="per-group"), Stage("d"))
    pool = FewWorkers(2)
    engine = Engine(CheckedDispatcher(stages, parse("Seq-Seq-Seq-Seq", stages, name="four")), pool)
    engine.start()
    times = delivered_times(engine, pool, [], until_s=20.0)
    assert longest_gap_s(times, 2.0, 20.0) <= 2.0


def test_a_run_begins_with_the_workers_that_could_be_started():
    """The others are tried again and again, as where the nodes have no room for what they reserve."""
    licences = iter(range(2))

    class Licensed(App):
        name = "licensed"
        stages = (Stage("first"), Stage("second"), Stage("third"))

        def setup(self) -> None:
            next(licences)

        def first(self, value: int) -> int:
            return value

        second = third = first

    results = run(Licensed, source=range(20), pool="local", progress=False)
    assert [each.value for each in results] == [*range(20)]


@pytest.mark.logs_errors("workers cannot start")
def test_a_run_whose_stage_nobody_can_load_ends_with_the_reason():
    class Unloaded(App):
        name = "unloaded"
        stages = (Stage("first"), Stage("second", setup="per-group"))

        def setup(self, stages: tuple[str, ...]) -> None:
            if "second" in stages:
                raise OSError("there is no model")

        def first(self, value: int) -> int:
            return value

        second = first

    with pytest.raises(RecomposeError, match="workers cannot start: OSError: there is no model"):
        list(run(Unloaded, source=range(20), pool="local", progress=False))
