"""Compositions whose workers choose the stage: what they are, what they are said to do, and what they do."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from apps.contract import App
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
from lab.simulation.machine import Cost, Machine
from lab.simulation.pool import SimulatedPool
from lab.simulation.scenario import Happening, Scenario, SimulatedStage
from lab.simulation.simulation import simulate
from profiler.slo import parse_slo
from runtime.dispatch.dispatcher import Dispatcher
from runtime.dispatch.events import WorkerId
from runtime.dispatch.instructions import Task
from runtime.dispatch.settings import DispatcherSettings
from runtime.engine import Engine
from runtime.pools.local import PickleCodec
from service.schemas.compositions import ActiveComposition

STAGES = (Stage("cut"), Stage("by_key", StageKind.PARTITIONED, partitions=3), Stage("sum", StageKind.STATEFUL))
PLAIN = tuple(Stage(name) for name in "abc")


# --- what they are ---------------------------------------------------------------------------------------------------


def test_a_group_a_stage_with_as_many_as_may_be_at_it() -> None:
    found = parse("Dyn*4(ct)", STAGES, name="free")
    assert found.dyn == Dyn(4, "ct")
    assert [(group.stages, group.replicas) for group in found.groups] == [
        (("cut",), 4),
        (("by_key",), 3),
        (("sum",), 1),
    ]
    assert found.workers == 4
    assert format_notation(found) == short_notation(found) == "Dyn*4(ct)"
    told = ActiveComposition.of(found)
    assert told.dyn is not None
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
        ("Dyn*1234567890", "replicas has 10 digits at position 4; that is too many"),
        ("Dyn-Seq", "expected Seq or Par at position 0 of the notation, found 'Dyn-Seq'; Dyn stands alone"),
        ("Seq-Dyn", "expected Seq or Par at position 4 of the notation, found 'Dyn'; Dyn stands alone"),
        ("Dyn*2(ct, slice_s)", "'slice_s' is no setting of Dyn; write name=value, as in Dyn*4(ct, slice_s=0.002)"),
        ("Dyn*2(ct, slice_s=90)", "Dyn: slice_s = 90, must be in [0.000001, 60] s"),
        ("Dyn*2(qst, capacity=0.5)", "Dyn: capacity = 0.5, must be a whole number"),
        ("Dyn*2(ct, slice_s=" + "9" * 50 + ")", f"Dyn: slice_s = '{'9' * 50}', must be a number"),
        ("Dyn*2(ct, selectivity=odd)", "Dyn: selectivity = 'odd', must be corrected or printed"),
        ("Dyn*2(ct, slice_s=1, window_s=1, slice_s=2)", "Dyn: slice_s is said 2 times; once is enough"),
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
    assert {a.transition_to(b) for a, b in ((dynamic, bound), (bound, dynamic), (dynamic, parse("Dyn*3", PLAIN)))} == {
        TransitionKind.SWITCH
    }


def test_a_file_may_have_it_and_is_written_as_it_was_read() -> None:
    text = "app: a\ncompositions:\n  - {name: free, notation: 'Dyn*4(kanban)'}\n"
    document = load(text, {"a": STAGES})
    assert document.compositions == (parse("Dyn*4(kanban)", STAGES, name="free"),)
    assert load(dump("a", document.compositions), {"a": STAGES}).compositions == document.compositions


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


def test_they_are_told_as_they_are_in_force() -> None:
    told = ActiveComposition.of(parse("Dyn*4(qst, capacity=7)", STAGES)).dyn
    assert told is not None
    assert told.settings == {"slice_s": 0.001, "capacity": 7, "half_life": 1000}


def test_and_are_gone_by() -> None:
    """A worker that stays for a slice of ten seconds is asked for anew far more rarely than one that stays a ms."""
    long = simulate(simulated(parse("Dyn*1(ct, slice_s=10)", PLAIN, name="free"), rate=Fixed(5.0)))
    short = simulate(simulated(parse("Dyn*1(ct, slice_s=0.001)", PLAIN, name="free"), rate=Fixed(5.0)))
    assert [item.at_s for item in long.delivered] != [item.at_s for item in short.delivered]


# --- what they are said to do ----------------------------------------------------------------------------------------


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


# --- what they do ----------------------------------------------------------------------------------------------------


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


def test_a_lost_worker_is_replaced() -> None:
    lost = (Happening(3.0, "lose_worker"),)
    trace = simulate(simulated(parse("Dyn*3", PLAIN, name="free"), rate=Fixed(30.0), happenings=lost))
    serials = [item.serial for item in trace.delivered]
    assert serials == list(range(len(serials)))
    assert len(serials) > 200


class Running(App):
    """A number, its sum by remainder, and the sum of all."""

    name = "running"
    stages = STAGES

    def cut(self, value: int) -> int:
        return value % 11

    def by_key(self, value: int, state: int | None) -> tuple[tuple[int, int], int]:
        total = (state or 0) + value
        return (value, total), total

    def by_key_key(self, value: int) -> int:
        return value % 5

    def sum(self, value: tuple[int, int], state: int | None) -> tuple[tuple[int, int, int], int]:
        total = (state or 0) + value[1]
        return (*value, total), total


class Counting(SimulatedPool):
    """Counts the tasks of stages with keys, and the partitions that they bring with their states."""

    tasks = brought = 0

    def send(self, worker: WorkerId, tasks: Sequence[Task]) -> None:
        for task in tasks:
            if task.keyed is not None:
                self.tasks += 1
                self.brought += sum(bool(states) for kept in task.keyed.kept.values() for states in kept.values())
        super().send(worker, tasks)


@pytest.mark.parametrize("scheduler", SCHEDULER_NAMES)
def test_of_several_idle_workers_the_one_with_the_states_goes_to_a_stage_by_key(scheduler: str) -> None:
    """Others go to stages without: any will do there, and the states stay where they are."""
    shape, codec, pool = parse(f"Dyn*4({scheduler})", STAGES), PickleCodec(), counting()
    engine = Engine(Dispatcher(STAGES, shape, DispatcherSettings(spares=0)), pool)
    engine.start()
    while len(engine.view().workers) < 4:
        engine.advance(engine.now_s + 1.0)
    for value in range(200):
        engine.admit(codec.encode([value]), (engine.now_s,))
        until_s = engine.now_s + 0.02  # two or three are on their way, and one worker at least is idle
        while engine.now_s < until_s:
            engine.advance(until_s)
    while not engine.idle:
        engine.advance(engine.now_s + 1.0)
    assert pool.tasks >= 200
    assert pool.brought <= 0.05 * pool.tasks, "where the first idle worker goes it is 0.6"


def counting() -> Counting:
    return Counting(lambda stage, serial: Cost(0.012), Machine(cores=4), Running)
