"""Compositions whose workers choose the stage: what they are, and that their schedulers decide as in the paper."""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from apps.contract import Outputs
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
from lab.papers.prasaad.operators import Operator
from lab.papers.prasaad.plant import Plant, Setup
from lab.simulation.machine import Cost, Machine
from lab.simulation.pool import SimulatedPool
from lab.simulation.scenario import Scenario, SimulatedStage
from lab.simulation.simulation import simulate
from profiler.slo import parse_slo
from recompose import pipeline
from runtime import scheduling
from runtime.dispatch.dispatcher import Dispatcher
from runtime.dispatch.outcomes import Delivered, TaskTimed
from runtime.dispatch.settings import DispatcherSettings
from runtime.engine import Engine
from runtime.pools.local import PickleCodec
from runtime.scheduling import make_scheduler
from runtime.scheduling.port import Book, Look, Queue, Visit
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
        ("Dyn-Seq", "expected Seq or Par at position 0 of the notation, found 'Dyn-Seq'; Dyn must be the only group"),
        ("Dyn*2(ct, slice_s)", "'slice_s' is no setting of Dyn; write name=value, as in Dyn*4(ct, slice_s=0.002)"),
        ("Dyn*2(ct, slice_s=1, window_s=1, slice_s=2)", "Dyn: slice_s is given 2 times; give it once"),
        ("Dyn(window_s=1)", "Dyn: scheduler lp has no setting 'window_s'; it has slice_s, least_waiting"),
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
        ("Seq-Seq-Seq", "{slice_s: 1}", "are accepted with a notation such as Dyn*4(ct) only"),
        ("Dyn*4", "[1]", "must be a mapping with slice_s, least_waiting, not a list"),
        ("Dyn*4", "{slice_s: long}", "slice_s = 'long', must be a number"),
        ("Dyn*4", "{1: 2}", "scheduler lp has no setting 1; it has slice_s, least_waiting"),
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


ONE_MS = Look(10, True, 0, 4, 0.001)


def chosen(name: str, looks: Sequence[Look], **settings: float | str) -> int | None:
    return make_scheduler(name, SchedulerSettings().overridden(settings)).choose(looks)


def waiting(*counts: int) -> list[Look]:
    """Operators of 1 ms and selectivity 1, for four workers each."""
    return [ONE_MS._replace(waiting=count, ready=count > 0) for count in counts]


@pytest.mark.parametrize("name", SCHEDULER_NAMES)
def test_only_operators_with_work_and_room_for_one_more_worker_are_chosen(name: str) -> None:
    full = ONE_MS._replace(workers=1, most_workers=1)
    blocked = ONE_MS._replace(waiting=1, ready=False)
    assert chosen(name, [full, ONE_MS, blocked]) == 1
    assert chosen(name, waiting(0, 0, 0)) is None


@pytest.mark.parametrize("name", SCHEDULER_NAMES)
def test_a_turn_has_the_tuples_of_a_slice_and_one_at_least(name: str) -> None:
    scheduler = make_scheduler(name, SchedulerSettings(slice_s=0.01))
    assert scheduler.allotment(ONE_MS) == 10
    assert scheduler.allotment(ONE_MS._replace(cost_s=1.0)) == 1
    assert scheduler.allotment(ONE_MS._replace(cost_s=None)) == 1


def test_qst_fills_the_queues_from_the_front_and_passes_over_one_whose_outputs_wait() -> None:
    """Equation 1 with selectivities of 1: each of three operators has a third of the capacity behind it."""
    for counts, expected in {(50, 9, 50): 0, (50, 10, 9): 1, (50, 10, 10): 2}.items():
        assert chosen("qst", waiting(*counts), capacity=30) == expected
    assert chosen("qst", [*waiting(50, 10), ONE_MS._replace(waiting=10, ready=False)], capacity=30) is None


def test_lp_takes_the_latest_with_input_and_with_a_minimum_leaves_nothing_behind() -> None:
    assert [chosen("lp", waiting(50, 1, last)) for last in (0, 1)] == [1, 2]
    assert [chosen("lp", waiting(first, 4, 3), least_waiting=5) for first in (50, 0)] == [0, 2]


def test_et_takes_the_longest_worklist_in_time() -> None:
    slow = ONE_MS._replace(waiting=3, cost_s=0.01)
    assert chosen("et", [*waiting(20), slow]) == 1
    assert chosen("et", [*waiting(40), slow]) == 0
    assert chosen("et", [*waiting(40), slow._replace(workers=0), ONE_MS._replace(waiting=100, workers=3)]) == 0


def test_ct_takes_who_has_done_least_in_the_window() -> None:
    looks = waiting(9, 9, 9)
    spent = [look._replace(spent_s=s) for look, s in zip(looks, (0.03, 0.01, 0.02), strict=True)]
    assert chosen("ct", spent) == 1
    assert chosen("ct", [spent[0], spent[1]._replace(workers=2), spent[2]], slice_s=0.01) == 2


def test_ct_counts_tuples_and_not_time() -> None:
    """Half the time at half the cost is as much done; a tie is the later one's."""
    quick = ONE_MS._replace(cost_s=0.0005, spent_s=0.01)
    assert chosen("ct", [ONE_MS._replace(spent_s=0.02), quick]) == 1
    assert chosen("ct", [ONE_MS._replace(spent_s=0.019), quick]) == 0


def test_kanban_pulls_and_makes_nothing_ahead() -> None:
    """The last operator is at its maximal parallelism: once what its one worker takes in two slices of 2 ms waits
    there, the one before it gets nobody, and the first only as long as that one has room."""
    last = ONE_MS._replace(waiting=3, workers=1, most_workers=1)
    assert chosen("kanban", [*waiting(50, 50), last], slice_s=0.002, ahead=2) == 1
    last = last._replace(waiting=4)
    assert chosen("lp", [*waiting(50, 50), last]) == 1
    assert chosen("kanban", [*waiting(50, 15), last], slice_s=0.002, ahead=2) == 0
    assert chosen("kanban", [*waiting(50, 16), last], slice_s=0.002, ahead=2) is None


def test_what_is_measured_is_in_the_looks_as_far_as_it_lies_in_their_window() -> None:
    queues, nothing = [Queue(5, True, 1, 4), Queue(0, False, 0, 1)], Look(0, False, 0, 1)
    book = Book(2, SchedulerSettings(window_s=1.0))
    assert book.looks(0.0, queues) == [Look(5, True, 1, 4), nothing]
    book.note(0, Visit(began_s=0.0, ended_s=0.25, tuples=100, outputs=50, busy_s=0.2))
    assert book.looks(0.3, queues) == [Look(5, True, 1, 4, 0.002, 0.5, 0.25), nothing]
    book.note(1, Visit(0.5, 1.2, 10, 10, 0.7))
    assert book.looks(1.3, queues)[1].spent_s == pytest.approx(0.2)
    assert book.looks(2.0, queues)[1].spent_s == 0.0


SELECTIVITIES = {"first": 1.0, "filter": 0.01, "last": 1.0}
OPERATORS = [Operator(name, StageKind.STATELESS, 0.01, selectivity=each) for name, each in SELECTIVITIES.items()]
WORKERS, INPUTS = 2, 600
SETTINGS: dict[str, dict[str, Any]] = {name: {"slice_s": 0.009} for name in ("qst", "ct", "lp", "et")}
SETTINGS["qst"]["capacity"] = 3
SETTINGS["ct"]["window_s"] = 1.0
"""A slice holds one tuple, so every tuple is a decision. QST's thresholds are 2.94, 0.03, 0.03 once the selectivity is
known, and would be 1, 1, 1 without it."""


def step(operator: Operator) -> tuple[Stage, Any]:
    return Stage(operator.name), lambda value: Outputs(operator.outputs(value, 0)[0])


Filtering = pipeline(*map(step, OPERATORS))
"""The operators, as an app."""


class Spy:
    """Notes the operator that each question was answered with, and the selectivities that the answer knew."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: Any) -> None:
        self.chosen: list[int] = []
        self.selectivities: list[float] = []
        spy, real = self, scheduling.SCHEDULERS[name]

        class Noting(real):  # type: ignore[misc, valid-type]
            def choose(self, looks: Sequence[Look]) -> int | None:
                found: int | None = super().choose(looks)
                if found is not None:
                    spy.chosen.append(found)
                spy.selectivities = [look.selectivity for look in looks]
                return found

        monkeypatch.setitem(scheduling.SCHEDULERS, name, Noting)  # type: ignore[arg-type]


def live(rate_per_s: float, notation: str) -> list[object]:
    """Run the dispatcher in virtual time, without hops and without a second task at a worker; return its outcomes."""
    machine = Machine(cores=WORKERS, hop_s=0, hop_cpu_s=0, start_s=0)
    pool = SimulatedPool(lambda stage, serial: Cost(0.01), machine, Filtering)
    settings = DispatcherSettings(spares=0, prefetch_below_s=0.0)
    engine = Engine(Dispatcher(Filtering.stages, parse(notation, Filtering.stages), settings), pool)
    outcomes: list[object] = []
    engine.start()
    while len(engine.view().workers) < WORKERS:
        engine.advance(engine.now_s + 1e-9)
    codec, began_s = PickleCodec(), engine.now_s
    for number in range(INPUTS):
        while engine.now_s < began_s + number / rate_per_s:
            outcomes += engine.advance(began_s + number / rate_per_s)
        engine.admit(codec.encode([number]), (engine.now_s,))
    while not engine.idle:
        outcomes += engine.advance(engine.now_s + 1.0)
    return outcomes


def notation(name: str, **more: Any) -> str:
    said = ", ".join(f"{key}={value}" for key, value in {**SETTINGS[name], **more}.items())
    return f"Dyn*{WORKERS}({name}, {said})"


@pytest.mark.parametrize(("name", "rate_per_s"), [*product(("qst", "ct"), (60.0, 130.0)), ("lp", 130.0), ("et", 60.0)])
def test_a_scheduler_decides_as_in_the_paper(name: str, rate_per_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """130 inputs/s are more than two workers can do (100): lists grow, and thresholds decide."""
    with monkeypatch.context() as patch:
        ours = Spy(patch, name)
        live(rate_per_s, notation(name))
    paper = Spy(monkeypatch, name)
    setup = Setup(name, workers=WORKERS, settings=SchedulerSettings(**SETTINGS[name]))
    Plant(OPERATORS, setup).run(range(INPUTS), rate_per_s)
    assert len(ours.chosen) > 2 * INPUTS
    assert ours.chosen == paper.chosen
    assert ours.selectivities == pytest.approx([*SELECTIVITIES.values()], abs=0.005)


def test_a_filtered_item_goes_to_no_further_worker_and_counts_in_the_profile() -> None:
    outcomes = live(60.0, notation("lp"))
    timed = [each for each in outcomes if isinstance(each, TaskTimed)]
    at_last = [each.timings[-1].wall_s for each in timed if each.timings[-1].stage == "last"]
    assert len(at_last) == INPUTS, "a mean over items is over all of them"
    assert 0 < sum(wall_s > 0 for wall_s in at_last) < 0.03 * INPUTS
    assert sum(isinstance(each, Delivered) for each in outcomes) == INPUTS
