"""Manager and dispatcher agree on when a switch is over: the dispatcher's word is the only one."""

from compositions.model import Composition, Group, Loads, Pattern, Stage
from control.choices import Choices
from control.decisions import Mode
from control.manager import Manager
from control.settings import Settings
from control.strategies import make_strategy
from lab.simulation.invariants import CheckedDispatcher
from lab.simulation.machine import constant_cost
from lab.simulation.pool import SimulatedPool
from profiler.monitor import Monitor, MonitorSettings
from runtime.dispatch.settings import DispatcherSettings
from runtime.engine import Engine
from service.runner.loop import ControlLoop, LoopSettings

STAGES = (Stage("a"),)
ONE = Composition("one", (Group(("a",)),))
WIDE = Composition("wide", (Group(("a",), Pattern.PAR, 4),))
PREPARE_LIMIT_S = 300.0


class ShortPool(SimulatedPool):
    """Of all workers asked for, two ever come."""

    left = 2

    def start(self, count: int, loads: Loads = ()) -> None:
        super().start(min(count, self.left))
        self.left -= min(count, self.left)


def test_the_manager_waits_for_a_switch_as_long_as_the_dispatcher_does():
    settings = DispatcherSettings(prepare_limit_s=PREPARE_LIMIT_S)
    assert Settings().rhythm.switch_limit_s < PREPARE_LIMIT_S
    engine = Engine(CheckedDispatcher(STAGES, ONE, settings), ShortPool(constant_cost({"a": 0.01})))
    manager = Manager(Settings(), make_strategy("static"), Choices(STAGES, (ONE, WIDE), ONE), Mode.AUTO, None)
    loop = ControlLoop(engine, Monitor(MonitorSettings(), ["a"], 2), manager, LoopSettings(lambda: 2))
    engine.start()
    manager.set_mode(Mode.PINNED, "wide")
    said: list[tuple[float, str]] = []
    while engine.now_s < PREPARE_LIMIT_S + 10:
        loop.step(engine.now_s + 1.0)
        reason = getattr(loop.result.decision, "reason", "") if loop.result else ""
        if reason and (not said or said[-1][1] != reason):
            said.append((engine.now_s, reason))
    (failed_s, failed) = next(each for each in said if "failed" in each[1])
    assert failed == "the switch to wide failed: its workers were not ready after 300 s"
    assert failed_s >= PREPARE_LIMIT_S
    assert [record.ended.error for record in loop.journal.switches] == ["its workers were not ready after 300 s"]
