"""What a source was asked for, and could not give in time, is told by the status and by telemetry."""

import pytest

from compositions.model import Composition, Group, Stage
from control.choices import Choices
from control.decisions import Mode
from control.manager import Manager
from control.settings import Settings
from control.strategies import make_strategy
from lab.simulation.machine import Machine, constant_cost
from lab.simulation.pool import SimulatedPool
from profiler.monitor import Monitor, MonitorSettings
from profiler.snapshot import Demand
from runtime.dispatch.dispatcher import Dispatcher
from runtime.engine import Engine
from service.runner.loop import ControlLoop, LoopSettings
from service.runner.telemetry.accounts import WallClock
from service.runner.telemetry.telemetry import Rows, fields_of
from service.schemas.figures import Demand as Shown

STAGES = (Stage("a"),)
ONE = Composition("one", (Group(("a",)),))


@pytest.fixture
def held_back() -> ControlLoop:
    """45 items/s are due for five seconds, 25 are admitted, two given up; the next one has been due for 2 s."""
    monitor = Monitor(MonitorSettings(), "a", 2)
    manager = Manager(Settings(), make_strategy("expected-cost"), Choices(STAGES, (ONE,), ONE), Mode.AUTO, None)
    engine = Engine(Dispatcher(STAGES, ONE), SimulatedPool(constant_cost({"a": 0.04}), Machine(cores=2)))
    loop = ControlLoop(engine, monitor, manager, LoopSettings(lambda: 2))
    for turn in range(21):
        monitor.record_demand(turn / 4, Demand(45 * turn // 4, 25 * turn // 4, 2 * turn // 4, 2.0))
    loop.tick(5.0)
    return loop


def test_the_status_has_it(held_back: ControlLoop) -> None:
    told = Shown.of(held_back.snapshot, held_back.monitor.latencies, None, refused=3)
    assert (told.offered_per_s, told.admitted_per_s) == (pytest.approx(45, rel=0.02), pytest.approx(25, rel=0.02))
    assert (told.missed, told.lag_s, told.refused) == (10, 2.0, 3)


def test_telemetry_has_it(held_back: ControlLoop) -> None:
    assert held_back.snapshot is not None
    assert held_back.result is not None
    told = Rows("run", WallClock(0.0)).snapshot(held_back, held_back.snapshot, held_back.result)
    row = dict(zip(fields_of("snapshots"), told, strict=True))
    assert (row["offered_per_s"], row["admitted_per_s"]) == (pytest.approx(45, rel=0.02), pytest.approx(25, rel=0.02))
    assert (row["missed"], row["lag_s"]) == (10, 2.0)
