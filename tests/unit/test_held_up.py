"""What holds a stream up is told in a sentence, wherever the status is shown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from apps import registry
from compositions.model import Composition, Group, Stage
from compositions.notation import parse
from control.choices import Choices
from control.decisions import Mode, State
from control.manager import Manager
from control.settings import Settings
from control.strategies import make_strategy
from profiler.monitor import Monitor, MonitorSettings
from profiler.snapshot import Demand
from runtime.dispatch.dispatcher import Dispatcher
from runtime.dispatch.events import WorkerJoined, WorkerLost
from runtime.dispatch.settings import DispatcherSettings
from runtime.dispatch.views import DispatcherView
from runtime.engine import Engine
from runtime.pools.simulated import SimulatedPool
from runtime.pools.simulated_machine import Machine, constant_cost
from service.bodies.spec import RunSpec
from service.bodies.status import resting
from service.running.answering.held_up import held_up
from service.running.answering.status import Beside, running_status
from service.running.loop import ControlLoop, LoopSettings

STAGES = tuple(Stage(name) for name in "abcd")
FOUR = Composition("four", tuple(Group((stage.name,)) for stage in STAGES))


def seen_with(workers: int) -> DispatcherView:
    """Of four groups, after a worker more was lost than are left."""
    dispatcher = Dispatcher(STAGES, FOUR, validate=True)
    dispatcher.start(0.0)
    for number in range(workers + 1):
        dispatcher.handle(WorkerJoined(0.0, f"w{number}"))
    dispatcher.handle(WorkerLost(1.0, f"w{workers}"))
    return dispatcher.view(1.0)


@pytest.mark.parametrize(
    ("workers", "told"),
    [
        (5, None),
        (4, None),
        (3, "3 workers for 4 groups, shared in turn"),
        (1, "1 worker for 4 groups, shared in turn"),
        (0, "0 workers for 4 groups, shared in turn"),
    ],
)
def test_too_few_workers_are_told(workers: int, told: str | None) -> None:
    assert held_up(seen_with(workers), None) == told


def test_workers_that_are_to_go_from_group_to_group_hold_nothing_up() -> None:
    free = parse("Dyn*3", STAGES, name="free")
    assert held_up(replace(seen_with(3), composition=free), None) is None
    assert held_up(replace(seen_with(2), composition=free), None) == "2 workers for 4 groups, shared in turn"


@pytest.mark.parametrize(
    ("lag_s", "told"),
    [
        (0.0, None),
        (1.0, None),
        (4.24, "the source is held back: the next item has been due for 4.2 s"),
    ],
)
def test_a_source_that_is_held_back_is_told(lag_s: float, told: str | None) -> None:
    assert held_up(seen_with(4), Demand(100, 50, 0, lag_s)) == told


def test_both_are_told() -> None:
    assert held_up(seen_with(3), Demand(100, 50, 0, 2.0)) == (
        "3 workers for 4 groups, shared in turn; the source is held back: the next item has been due for 2.0 s"
    )


def test_the_status_of_a_running_app_has_it() -> None:
    pool = SimulatedPool(constant_cost({stage.name: 0.01 for stage in STAGES}), Machine(cores=4))
    engine = Engine(Dispatcher(STAGES, FOUR, DispatcherSettings(spares=0)), pool)
    manager = Manager(Settings(), make_strategy("model"), Choices(STAGES, (FOUR,), FOUR), Mode.AUTO, None)
    loop = ControlLoop(engine, Monitor(MonitorSettings(), "abcd", 4), manager, LoopSettings(cores=4))
    known = resting(registry.find("synthetic"), State.STABLE, RunSpec(app="synthetic"), None)

    def told() -> str | None:
        loop.tick(engine.now_s)
        return running_status(known, STAGES, loop, Beside(None, None, None), str).held_up

    engine.start()
    while len(engine.view().workers) < 4:
        loop.step(engine.now_s + 0.25)
    assert told() is None
    pool.lose("w1")
    loop.step(engine.now_s + 0.25)
    assert told() == "3 workers for 4 groups, shared in turn"
    while len(engine.view().workers) < 4:
        loop.step(engine.now_s + 0.25)
    assert told() is None
