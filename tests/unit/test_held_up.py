"""Check that a sentence says what holds a stream up, wherever the status is shown."""

from dataclasses import replace

import pytest
from dispatcher_bench import Bench

from compositions.model import Composition, Group, Stage
from compositions.notation import parse
from control.choices import Choices
from control.decisions import Mode
from control.manager import Manager
from control.settings import Settings
from control.strategies import make_strategy
from lab.simulation.machine import Machine, constant_cost
from lab.simulation.pool import SimulatedPool
from profiler.monitor import Monitor, MonitorSettings
from profiler.snapshot import Demand, Snapshot, StageProfile
from runtime.dispatch.dispatcher import Dispatcher
from runtime.dispatch.views import DispatcherView
from runtime.engine import Engine
from service.runner.handlers.answers import blocked_by
from service.runner.loop import ControlLoop, LoopSettings
from service.runner.telemetry.accounts import WallClock
from service.runner.telemetry.telemetry import Rows, fields_of
from service.schemas.figures import Demand as Shown
from tests.support.figures import NOTHING_SEEN, profile

STAGES = tuple(Stage(name) for name in "abcd")
FOUR = Composition("four", tuple(Group((stage.name,)) for stage in STAGES))


def seen_with(workers: int) -> DispatcherView:
    """Of four groups, after a worker more was lost than are left."""
    bench = Bench("Seq-Seq-Seq-Seq", STAGES, workers + 1)
    bench.lose(f"w{workers + 1}", at_s=1.0)
    return bench.dispatcher.view(1.0)


def asked(demand: Demand, *stages: StageProfile) -> Snapshot:
    return replace(NOTHING_SEEN, now_s=9.0, input_rate_per_s=10.0, stages=stages, demand=demand)


FREE = parse("Dyn*3", STAGES, name="free")
"""Its workers are to go from group to group."""


@pytest.mark.parametrize(
    ("composition", "workers", "short"),
    [(FOUR, 5, False), (FOUR, 3, True), (FOUR, 0, True), (FREE, 3, False), (FREE, 2, True)],
)
def test_too_few_workers_are_told(composition: Composition, workers: int, short: bool) -> None:
    told = {"workers": f"{workers} workers for 4 groups, served in turn"} if short else {}
    assert blocked_by(replace(seen_with(workers), composition=composition), None) == told


@pytest.mark.parametrize(("lag_s", "told"), [(0.0, False), (1.0, False), (4.24, True)])
def test_a_source_that_is_held_back_is_told(lag_s: float, told: bool) -> None:
    expected = {"backlog": "the source is held back: the next item is overdue by 4.2 s"} if told else {}
    assert blocked_by(seen_with(4), asked(Demand(100, 50, 0, lag_s))) == expected


def test_both_are_told() -> None:
    assert blocked_by(seen_with(3), asked(Demand(100, 50, 0, 2.0, stalled_s=7.0)), {"sink": "the disk is full"}) == {
        "sink": "the disk is full",
        "workers": "3 workers for 4 groups, served in turn",
        "backlog": "the source is held back: the next item is overdue by 2.0 s",
        "stages": "no item was delivered for 7 s",
    }


@pytest.mark.parametrize(("stalled_s", "usual_s", "still"), [(5.0, 0.1, False), (5.1, 0.1, True), (80.0, 30.0, False)])
def test_a_stream_stands_still_when_nothing_comes_out_for_long(stalled_s: float, usual_s: float, still: bool) -> None:
    slow = profile("a", usual_s)
    found = blocked_by(seen_with(4), asked(Demand(100, 100, 0, 0.0, stalled_s=stalled_s), slow))
    assert ("stages" in found) is still


ALONE = (Stage("a"),)
ONE = Composition("one", (Group(("a",)),))


def test_status_and_telemetry_have_it() -> None:
    """45 items/s are due for five seconds, 25 are admitted, two given up; the next one has been due for 2 s."""
    monitor = Monitor(MonitorSettings(), "a", 2)
    manager = Manager(Settings(), make_strategy("expected-cost"), Choices(ALONE, (ONE,), ONE), Mode.AUTO, None)
    engine = Engine(Dispatcher(ALONE, ONE), SimulatedPool(constant_cost({"a": 0.04}), Machine(cores=2)))
    loop = ControlLoop(engine, monitor, manager, LoopSettings(lambda: 2))
    for turn in range(21):
        monitor.record_demand(turn / 4, Demand(45 * turn // 4, 25 * turn // 4, 2 * turn // 4, 2.0))
    loop.tick(5.0)
    status = Shown.of(loop.snapshot, monitor.latencies, None, refused=3)
    assert status.refused == 3
    told = Rows("run", WallClock(0.0)).snapshot(loop, loop.snapshot, loop.result)
    for row in (dict(zip(fields_of("snapshots"), told, strict=True)), vars(status)):
        assert (row["offered_per_s"], row["admitted_per_s"]) == pytest.approx((45, 25), rel=0.02)
        assert (row["missed"], row["lag_s"]) == (10, 2.0)
