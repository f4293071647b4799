"""Compositions whose workers choose the stage: what they are, what they are said to do, and what they do."""

import re
from dataclasses import replace
from typing import Any

import pytest

from apps.rates import Fixed
from compositions.batch_settings import SchedulerSettings
from compositions.capacity.costs import Conditions, StageCost
from compositions.capacity.predict import predict
from compositions.document.loader import dump, load
from compositions.dynamic import SCHEDULER_NAMES, Dyn
from compositions.errors import CompositionError
from compositions.model import Composition, Stage, StageKind, TransitionKind
from compositions.notation import format_notation, parse, short_notation
from control.decisions import Mode
from lab.simulation.machine import Machine
from lab.simulation.scenario import Scenario, SimulatedStage
from lab.simulation.simulation import simulate
from profiler.slo import parse_slo
from service.schemas.compositions import ActiveComposition

STAGES = (Stage("cut"), Stage("by_key", StageKind.PARTITIONED, partitions=3), Stage("sum", StageKind.STATEFUL))
PLAIN = tuple(Stage(name) for name in "abc")


def test_a_group_a_stage_with_as_many_as_may_be_at_it() -> None:
    found = parse("Dyn*4(ct)", STAGES, name="free")
    assert found.dyn == Dyn(4, "ct")
    assert [(*group.stages, group.replicas) for group in found.groups] == [("cut", 4), ("by_key", 3), ("sum", 1)]
    assert found.workers == 4
    assert format_notation(found) == short_notation(found) == "Dyn*4(ct)"
    told = ActiveComposition.of(found)
    assert (told.dyn.workers, told.dyn.scheduler) == (4, "ct")
    assert parse(format_notation(found), STAGES, name="free") == found


def test_what_goes_without_saying() -> None:
    assert parse("Dyn", STAGES).dyn == Dyn(2, "lp")
    assert parse(" Dyn × 3 ", STAGES, default_replicas=5).dyn == Dyn(3, "lp")
    assert parse("Dyn( et )", STAGES, default_replicas=5).dyn == Dyn(5, "et")


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("Dyn(rr)", "unknown scheduler 'rr' of Dyn; there are qst, lp, et, ct, kanban"),
        ("Dyn*0", "workers is 0; it must be at least 1 and at most 1,000"),
        ("Dyn-Seq", "expected Seq or Par at position 0 of the notation, found 'Dyn-Seq'; Dyn stands alone"),
        ("Dyn*2(ct, slice_s)", "'slice_s' is no setting of Dyn; write name=value, as in Dyn*4(ct, slice_s=0.002)"),
        ("Dyn*2(ct, slice_s=1, window_s=1, slice_s=2)", "Dyn: slice_s is given 2 times; give it once"),
        ("Dyn(window_s=1)", "Dyn: scheduler lp has no setting 'window_s'; it takes slice_s, least_waiting"),
    ],
)
def test_what_is_none_is_refused(text: str, refused: str) -> None:
    with pytest.raises(CompositionError) as raised:
        parse(text, STAGES)
    assert str(raised.value) == refused


def test_it_is_another_one_than_that_with_the_same_groups_and_no_resize_of_it() -> None:
    dynamic, bound = parse("Dyn*2", PLAIN), parse("Par-Par-Par", PLAIN)
    assert dynamic.groups == bound.groups
    assert len({each.shape for each in (dynamic, bound, parse("Dyn*2(ct)", PLAIN), parse("Dyn*3", PLAIN))}) == 4
    for before, after in ((dynamic, bound), (bound, dynamic), (dynamic, parse("Dyn*3", PLAIN))):
        assert before.transition_to(after) is TransitionKind.SWITCH


def test_settings_are_said_in_the_notation() -> None:
    found = parse("Dyn*4( ct , window_s=0.5,slice_s=2e-3, half_life = 1000 )", STAGES, name="free")
    assert found.dyn == Dyn(4, "ct", SchedulerSettings(slice_s=0.002, window_s=0.5))
    assert format_notation(found) == "Dyn*4(ct, slice_s=0.002, window_s=0.5)"
    assert parse(format_notation(found), STAGES, name="free") == found
    assert parse("Dyn(least_waiting=3)", STAGES).dyn == Dyn(2, "lp", SchedulerSettings(least_waiting=3))
    usual = parse("Dyn*4(ct)", STAGES)
    assert usual.shape != found.shape
    assert usual.transition_to(found) == TransitionKind.SWITCH


def test_and_in_a_file_beside_it() -> None:
    text = "app: a\ncompositions:\n  - {name: free, notation: '%s', settings: %s}\n"
    document = load(text % ("Dyn*4(ct, slice_s=0.01)", "{slice_s: 0.002, window_s: 0.5}"), {"a": STAGES})
    assert document.compositions == (parse("Dyn*4(ct, slice_s=0.002, window_s=0.5)", STAGES, name="free"),)
    assert load(dump("a", document.compositions), {"a": STAGES}).compositions == document.compositions
    for notation, settings, refused in (
        ("Seq-Seq-Seq", "{slice_s: 1}", "are those of the scheduler of a notation such as Dyn*4(ct); bound workers"),
        ("Dyn*4", "[1]", "must be a mapping with slice_s, least_waiting, not a list"),
        ("Dyn*4", "{slice_s: long}", "slice_s = 'long', must be a number"),
        ("Dyn*4", "{1: 2}", "scheduler lp has no setting 1; it takes slice_s, least_waiting"),
    ):
        with pytest.raises(CompositionError, match=re.escape(f"compositions[0].settings: {refused}")):
            load(text % (notation, settings), {"a": STAGES})


def costs(**service_s: float) -> dict[str, StageCost]:
    return {name: StageCost(s, s, 0.0) for name, s in service_s.items()}


@pytest.mark.parametrize(
    ("cores", "stages", "per_s"),
    [(8, PLAIN, 4 / 0.06), (2, PLAIN, 2 / 0.06), (8, (*PLAIN[:2], Stage("c", StageKind.STATEFUL)), 1 / 0.04)],
)
def test_capacity_is_that_of_all_workers_together(cores: int, stages: tuple[Stage, ...], per_s: float) -> None:
    """A stage that keeps a state has one worker at most, whoever that is."""
    dynamic, conditions = parse("Dyn*4", stages), Conditions(cores, 0.0, None)
    found = predict(dynamic, costs(a=0.01, b=0.01, c=0.04), conditions)
    assert found.throughput_per_s == pytest.approx(per_s)
    assert found.workers == 4


def simulated(composition: Composition, **changes: Any) -> Scenario:
    stages = tuple(SimulatedStage(name, s) for name, s in (("a", 0.01), ("b", 0.01), ("c", 0.04)))
    scenario = Scenario(
        stages, (composition,), first=composition, mode=Mode.OBSERVE, rate=Fixed(100.0), duration_s=8.0,
        machine=Machine(cores=8),
    )  # fmt: skip
    return replace(scenario, **changes)


@pytest.mark.parametrize("scheduler", SCHEDULER_NAMES)
def test_workers_go_where_work_is(scheduler: str) -> None:
    """Three bound workers, one a stage, do 25/s; three that choose do 50, whatever the scheduler."""
    trace = simulate(simulated(parse(f"Dyn*3({scheduler})", PLAIN, name="free")))
    rate = sum(item.at_s > 3 for item in trace.delivered) / 5
    assert rate == pytest.approx(50, rel=0.07)


@pytest.mark.parametrize(("strategy", "chosen"), [("vogel", "free"), ("expected-cost", "wide")])
def test_a_strategy_that_tries_chooses_it_and_one_that_expects_takes_bound_workers(strategy: str, chosen: str) -> None:
    """Three workers that are bound do 25/s, and six 50 (``Seq-Seq-Par*4``); three that choose do 50."""
    listed = [("bound", "Seq-Seq-Seq"), ("wide", "Seq-Seq-Par*4"), ("free", "Dyn*3")]
    compositions = tuple(parse(text, PLAIN, name=name) for name, text in listed)
    trace = simulate(
        simulated(compositions[0], compositions=compositions, mode=Mode.AUTO, rate=Fixed(40.0), duration_s=30.0,
                  slo=parse_slo("throughput=input"), strategy=strategy)
    )  # fmt: skip
    assert trace.moments[-1].composition == chosen
    assert [decision.to_name for decision in trace.decisions] == [chosen]
    assert trace.moments[-1].meets
