"""A resize in decisions: what it costs, what it is called, and who does without it."""

from dataclasses import replace
from typing import Any

import pytest
from test_manager import ONE, STAGES, WIDE, WIDER, reason, snapshot, tick
from test_manager import manager as manager_of

from apps.rates import Fixed
from compositions.model import Composition, TransitionKind
from control.decisions import Mode, State, SwitchTo
from control.journal import Journal, SwitchRecord
from control.manager import Manager
from control.settings import Settings
from lab.simulation.gathering import SimulatedDoor, SimulatedInlet
from lab.simulation.scenario import Scenario, SimulatedStage
from lab.simulation.simulation import loop_on, pool_of
from profiler.slo import Slo
from runtime.dispatch.events import SwitchStyle
from runtime.dispatch.outcomes import SwitchEnded
from service.runner.loop import ControlLoop
from service.runner.validation.checked import CheckedSpec
from service.schemas.base import time_text
from service.schemas.decisions import Switch
from service.schemas.spec import RunSpec

ELASTIC = Settings(style=SwitchStyle.SEAMLESS)
TWIN = Composition("twin", ONE.groups)
SLO = Slo("latency", 400)


def manager(settings: Settings = ELASTIC) -> Manager:
    return manager_of(settings=settings, compositions=(ONE, WIDE, WIDER, TWIN))


def test_a_resize_is_called_so_from_the_first_word_to_the_decision() -> None:
    target = manager()
    asked = tick(target, snapshot(20, workers_alive=2))
    assert asked.commands == (SwitchTo(WIDE),)
    assert (reason(asked), asked.state) == ("resizing to wide", State.SWITCHING)
    done = tick(target, snapshot(20.25, "wide", since_s=20.0))
    assert (done.decision.transition, done.state) == (TransitionKind.RESIZE, State.STABLE), "over with the next tick"
    assert "; resizing in place from one to wide, which has the lowest expected cost of" in done.decision.reason
    ways = {each.name: each.transition for each in done.decision.candidates}
    assert ways == {"one": None, "wide": TransitionKind.RESIZE, "wider": TransitionKind.RESIZE}
    assert reason(tick(target, snapshot(20.5, "wide", since_s=20.0))).startswith("wide stays, as it has the lowest exp")


@pytest.mark.parametrize(("style", "commands"), [(SwitchStyle.SEAMLESS, (SwitchTo(TWIN),)), (SwitchStyle.DRAIN, ())])
def test_another_name_for_the_same_can_be_pinned_where_that_moves_nothing(style: SwitchStyle, commands: object) -> None:
    target = manager(Settings(style=style))
    target.set_mode(Mode.PINNED, "twin")
    assert tick(target, snapshot(20)).commands == commands


def test_a_resize_that_ended_has_no_figures_of_a_drain_and_is_counted() -> None:
    journal = Journal()
    ended = SwitchEnded(5.0, "one", "wide", SwitchStyle.SEAMLESS, kind=TransitionKind.RESIZE)
    journal.record_switch(SwitchRecord(0.2, 0.4), ended)
    journal.record_switch(SwitchRecord(0.2, 0.4), replace(ended, at_s=9.0, kind=TransitionKind.SWITCH))
    assert (journal.switch_count, journal.resize_count) == (2, 1)
    first, second = (Switch.of(record, time_text) for record in journal.switches)
    assert (first.transition, first.drain_mean_ms, first.drain_estimate_ms) == ("resize", None, None)
    assert (second.transition, second.drain_mean_ms, second.drain_estimate_ms) == ("switch", 200.0, 400.0)


def running(until_s: float) -> ControlLoop:
    """An app of 50 items/s in composition one, with a warm worker beside it."""
    stages = tuple(SimulatedStage(stage.name, 0.01) for stage in STAGES)
    scenario = Scenario(stages, (ONE, WIDE), first=ONE, rate=Fixed(50.0))
    loop = loop_on(pool_of(scenario), scenario, lambda _: None)
    loop.engine.start()
    door = SimulatedDoor(loop.engine, SimulatedInlet(scenario.rate))
    source = scenario.stream.source(door, loop.monitor, from_due=False)
    while loop.engine.now_s < until_s:
        loop.step(min(source.feed(), until_s))
    return loop


def test_what_is_pinned_by_hand_does_not_wait_for_the_managers_turn() -> None:
    loop = running(2.6)
    loop.manager.set_mode(Mode.PINNED, "wide")
    loop.look_now()
    loop.step(2.7)
    assert (loop.engine.view().composition.name, loop.engine.now_s) == ("wide", 2.6)


def test_after_a_resize_its_window_begins_anew_and_what_is_known_of_the_stages_stays() -> None:
    loop = running(4.0)
    known, began_s = loop.snapshot.stages, loop.snapshot.window_start_s
    assert [stage.samples > 50 for stage in known] == [True, True]
    loop.manager.set_mode(Mode.PINNED, "wide")
    while loop.engine.now_s < 4.6:
        loop.step(4.6)
    seen = loop.snapshot
    assert began_s < 4.0 <= seen.window_start_s == seen.stable_since_s
    assert [stage.samples for stage in seen.stages] >= [stage.samples for stage in known]
    assert seen.input_rate_per_s == pytest.approx(50.0, rel=0.2)


@pytest.mark.parametrize(
    ("strategy", "asked", "style", "sample"),
    [
        ("expected-cost", {}, "seamless", "schedule"),
        ("static", {}, "seamless", "schedule"),
        ("vogel", {}, "drain", "paper"),
        ("pdp21", {}, "drain", "paper"),
        ("vogel", {"switch_style": "seamless", "settings": {"drain_sample": "schedule"}}, "seamless", "schedule"),
        ("expected-cost", {"switch_style": "drain", "settings": {"drain_sample": "paper"}}, "drain", "paper"),
    ],
)
def test_the_strategies_of_the_papers_drain_as_published_unless_a_run_says_otherwise(
    strategy: str, asked: dict[str, Any], style: str, sample: str
) -> None:
    checked = CheckedSpec(RunSpec(app="synthetic", strategy=strategy, **asked))
    drain = checked.settings.drain
    assert (checked.style, checked.manager_settings.style) == (style, style)
    assert (drain.drain_sample, drain.made.waits) == (sample, sample == "paper"), "they wait for their estimate"


@pytest.mark.parametrize(
    ("how", "groups"),
    [
        ({"slo": SLO}, 1), ({}, 2), ({"slo": SLO, "mode": "observe"}, 2), ({"slo": SLO, "strategy": "vogel"}, 2),
        ({"slo": SLO, "composition": "sequential"}, 2),
    ],
)  # fmt: skip
def test_with_an_objective_it_begins_with_the_cheapest_papers_with_all_apart(how: dict[str, Any], groups: int) -> None:
    first = CheckedSpec(RunSpec(app="synthetic", options={"weights": "1:1"}, **how)).first
    assert (first.workers, len(first.groups)) == (groups, groups)
