"""Published strategies and regulators, step by step: Vogel's on the paper's own applications, replicas against tables
worked out by hand."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compositions.document.loader import load
from compositions.model import Composition, Group, Pattern, Stage
from control.assess import Assessment
from control.decisions import CandidateStatus, Trigger
from control.objectives import objective_of
from control.regulators import RegulatorSettings, Spar, Step, TwoSided
from control.settings import Settings
from control.situation import Situation
from control.strategies import make_strategy
from control.strategies.base import Settle, Stay, Trial, Try
from control.strategies.published import Vogel
from profiler.slo import Slo, SloStatus
from profiler.snapshot import LatencyFrom
from tests.support.figures import NOTHING_SEEN, latency, profile

SHIPPED = Path(__file__).parent.parent.parent / "compositions"
MISSED = Assessment(SloStatus.VIOLATED, False, "too slow", 80.0, 2.0)
MET = Assessment(SloStatus.MET, True, "fine", 160.0, 0.1)


def shipped(app: str, *stages: str) -> tuple[Composition, ...]:
    return load((SHIPPED / f"{app}.yaml").read_text(), {app: [Stage(s) for s in stages]}).compositions


SYNTHETIC = shipped("synthetic", "f1", "f2", "f3")
FERRET = shipped("ferret", "segment", "extract", "vectorize", "rank")


def of_the_papers(
    compositions: tuple[Composition, ...],
    times_ms: dict[str, float],
    active: str = "1",
    seen: Assessment = MISSED,
    trigger: Trigger = Trigger.VIOLATION,
    rate: float = 160.0,
) -> Situation:
    snapshot = replace(
        NOTHING_SEEN, now_s=100.0, composition=active, window_start_s=90.0, input_rate_per_s=rate, delivered=800,
        throughput_per_s=80.0, latency=latency(2.0), inside=latency(2.0), queued=32, queued_change_per_s=0.0, cores=24,
        stages=tuple(profile(name, ms / 1e3) for name, ms in times_ms.items()),
    )  # fmt: skip
    chosen = next(c for c in compositions if c.name == active)
    objective = objective_of(Slo("throughput", "input_rate"))
    return Situation(trigger, snapshot, objective, seen, chosen, compositions, Settings())


def tried_by(strategy: Vogel, at: Situation, results: dict[str, Assessment]) -> tuple[list[str], Settle]:
    """Lets the strategy try until it settles; ``results`` by name, missing ones miss the SLO."""
    trials: list[Trial] = []
    while isinstance(step := strategy.propose(at, tuple(trials)), Try):
        assert step.limit_s == 5.0
        trials.append(Trial(step.composition, results.get(step.composition.name, MISSED), 5.0, "time up"))
        at = replace(at, active=step.composition)
    assert isinstance(step, Settle)
    return [trial.composition.name for trial in trials], step


def test_balanced_stages_have_no_bottleneck_so_the_most_replicated_is_activated_at_once() -> None:
    step = Vogel().propose(of_the_papers(SYNTHETIC, {"f1": 8, "f2": 8, "f3": 8}), ())
    assert isinstance(step, Settle)
    assert step.composition.name == "7"


def test_ferret_takes_13_for_its_merged_stages_and_a_later_violation_tags_an_additional_bottleneck() -> None:
    strategy, times_ms = Vogel(), {"segment": 2.0, "extract": 0.2, "vectorize": 4.0, "rank": 60.0}
    rank_parallel = ["5", "8", "10", "11", "12", "13", "14"]
    tried, choice = tried_by(strategy, of_the_papers(FERRET, times_ms, rate=20), dict.fromkeys(rank_parallel, MET))
    assert (tried, choice.composition.name) == (rank_parallel, "13")
    later = of_the_papers(FERRET, times_ms, active="13", rate=20)
    tried, choice = tried_by(strategy, later, {"13": MET, "12": MET})
    assert (tried, choice.composition.name) == (["10", "12", "13"], "13")


def test_when_none_meets_the_slo_the_best_value_is_kept_and_called_infeasible() -> None:
    better = replace(MISSED, throughput_per_s=100.0)
    _, choice = tried_by(Vogel(), of_the_papers(SYNTHETIC, {"f1": 4, "f2": 12, "f3": 8}), {"5": better})
    assert (choice.composition.name, choice.infeasible) == ("5", True)
    assert [each.name for each in choice.candidates if each.status is CandidateStatus.REJECTED] == ["1", "2", "4"]


@pytest.mark.parametrize(("rate", "expected"), [(60.0, "1"), (110.0, "1"), (200.0, None)])
def test_a_fallen_rate_leads_to_the_cheapest_that_keeps_up(rate: float, expected: str | None) -> None:
    at = of_the_papers(SYNTHETIC, {"f1": 8, "f2": 8, "f3": 8}, "7", MET, Trigger.INPUT_RATE, rate=rate)
    step = Vogel().propose(at, ())
    assert step.composition.name == expected if isinstance(step, Settle) else expected is None


REPLICATED = Group(("scale",), Pattern.PAR, 2), Group(("detect",), Pattern.PAR, 3)
FARM = Composition("farm", (Group(("load",)), *REPLICATED, Group(("store",))))
PLAIN = Composition("plain", tuple(Group((name,)) for name in ("load", "scale", "detect", "store")))
NAMED = replace(FARM, name="four", groups=(*FARM.groups[:2], replace(FARM.groups[2], replicas=4), FARM.groups[3]))
Row = tuple[float | None, int]
"""Latency of a step (ms), replicas after it."""


def situation(inside_ms: float | None, active: Composition = FARM, slo: Slo | None = None) -> Situation:
    times_s = (("load", 0.09), ("scale", 0.005), ("detect", 0.06), ("store", 0.001))
    seen = replace(
        NOTHING_SEEN, composition=active.name, input_rate_per_s=30.0, latency=latency(9.0), cores=12,
        inside=None if inside_ms is None else latency(inside_ms / 1e3),
        stages=tuple(profile(name, each_s) for name, each_s in times_s),
    )  # fmt: skip
    objective = objective_of(slo or Slo("latency", 90.0), LatencyFrom.READ)
    judged = Assessment(SloStatus.MET, True, "met")
    return Situation(Trigger.PROFILE, seen, objective, judged, active, (FARM, PLAIN), Settings())


def test_the_slowest_replicated_group_is_resized_in_place_by_the_latency_inside() -> None:
    proposal = make_strategy("spar").propose(situation(60.0), ())
    assert [group.replicas for group in proposal.composition.groups] == [1, 2, 4, 1]
    assert (proposal.composition.grouping, proposal.composition.name) == (FARM.grouping, "detect x 4")
    assert proposal.reason == "spar: latency 60 ms, wanted 72 to 90 ms: 4 of at most 10 replicas"
    known = make_strategy("spar").propose(replace(situation(60.0), compositions=(FARM, NAMED)), ())
    assert known.composition is NAMED, "one that has a name keeps it"


@pytest.mark.parametrize("strategy", ["spar", "two-sided"])
@pytest.mark.parametrize(
    ("seen", "why"),
    [
        ((60.0, PLAIN), " needs a replicated group; composition plain has none"),
        ((60.0, FARM, Slo("throughput", 30.0)), " needs a latency objective; set one with"),
        ((None,), ": no item was finished in this step"),
    ],
)
def test_where_there_is_nothing_to_regulate_it_says_so(strategy: str, seen: tuple[Any, ...], why: str) -> None:
    stay = make_strategy(strategy).propose(situation(*seen), ())
    assert isinstance(stay, Stay)
    assert stay.reason.startswith(strategy + why)


def test_settings_are_those_of_the_run() -> None:
    told = Settings().overridden({"scaling_factor": 2, "threads": 6, "control_step_s": 0.5})
    proposal = make_strategy("spar").propose(replace(situation(60.0), settings=told), ())
    assert proposal.composition.groups[2].replicas == 4  # 3 + 2, held to 6 - 2
    assert make_strategy("spar").pace(told).check_interval_s == 0.5


TABLES: dict[tuple[int, float, int], Sequence[Row]] = {
    (1, 0.2, 8): [  # SF 1, θ 20 %: more below 144 ms, less above 180; at most 8 - 2 = 6
        (100.0, 2),
        (143.9, 3),
        (144.1, 3),  # within
        (180.0, 3),  # the target itself is met
        (180.1, 2),
        (None, 2),  # nothing was finished
        (900.0, 1),
        (900.0, 1),  # never none
        (50.0, 2), (50.0, 3), (50.0, 4), (50.0, 5), (50.0, 6),
        (50.0, 6),  # never more than cores - 2
    ],
    (2, 0.1, 8): [  # SF 2, θ 10 %: more below 162 ms
        (161.0, 3),
        (163.0, 3),
        (100.0, 5),
        (100.0, 6),  # 7, held to 6
        (181.0, 4),
        (181.0, 2),
        (181.0, 1),  # 0, held to 1
    ],
}  # fmt: skip


@pytest.mark.parametrize("case", TABLES)
def test_spar_is_that_of_the_table(case: tuple[int, float, int]) -> None:
    scaling_factor, threshold, cores = case
    spar = Spar(RegulatorSettings(180.0, scaling_factor, threshold, cores=cores))
    replicas = 1
    for latency_ms, expected in TABLES[case]:
        replicas = spar.regulate(Step(replicas, None if latency_ms is None else latency_ms / 1e3)).replicas
        assert replicas == expected, latency_ms


def two_sided(target_ms: float = 90.0, threads: int = 24, cores: int = 12) -> TwoSided:
    return TwoSided(RegulatorSettings(target_ms, cores=threads), cores)


OURS = [
    ("20 items/s of 60 ms keep 1.5 replicas busy 80 % of their time", Step(1, 0.06, 20.0), 2),
    ("as before", Step(2, 0.06, 20.0), 2),
    ("100 items/s: 7.5", Step(2, 0.06, 100.0), 8),
    ("nothing was finished", Step(8, None, 100.0), 8),
    ("always more: 12 · 0.75 · 90 / 60 = 13 bear it, but 67 % are not low", Step(8, 0.06, 2000.0, waits=True), 12),
    ("50 ms: 56 % of the target; 12 · 0.75 · 90 / 50 = 16", Step(12, 0.05, 2000.0, waits=True), 16),
    ("65 ms of 13 on 12 cores are 72 % of the target: neither high nor low", Step(13, 0.065, 2000.0, waits=True), 13),
    ("86.7 ms are 80 alone, and on by 20: beyond, so as many as cores", Step(13, 0.0867, 2000.0, waits=True), 12),
    ("fewer than cores would not be faster", Step(12, 0.1, 2000.0, waits=True), 12),
    ("30 ms: 0.33 of the target; 12 · 0.75 · 90 / 30 = 27, held to 22", Step(12, 0.03, 2000.0, waits=True), 22),
]


def test_two_sided_step_by_step() -> None:
    ours = two_sided()
    for why, step, expected in OURS:
        assert ours.regulate(step).replicas == expected, why


def test_two_sided_says_on_which_side_it_is() -> None:
    ours = two_sided()
    room, contended = (ours.regulate(step).reason for step in (OURS[0][1], Step(18, 0.09, 2000.0, waits=True)))
    assert room == "two-sided: 20 items/s arrive, and more replicas are possible: 2 of at most 22 replicas"
    assert contended.endswith("latency 100% of the target: 12 cores are contended: 13 of at most 22 replicas")


def test_two_sided_knows_a_queue_from_contention() -> None:
    starved = Step(2, 4.0, 30.0, waits=True, service_s=0.25, cpu_share=0.1)  # 30 · 0.25 / 0.8; 20 would not contend
    assert two_sided(300.0, threads=32, cores=2).regulate(starved).replicas == 10
    contended = Step(8, 0.28, 30.0, waits=True, cpu_share=0.25)  # 8 · 0.25 are both cores
    assert two_sided(300.0, threads=32, cores=2).regulate(contended).replicas < 8


def test_two_sided_gives_back_what_was_not_needed_for_five_steps() -> None:
    ours, rates = two_sided(), [30.0] * 6
    assert [ours.regulate(Step(8, 0.06, rate)).replicas for rate in rates] == [8, 8, 8, 8, 3, 3]
