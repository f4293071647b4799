"""Other circumstances: predictions of the capacity model, and the choice of the app's own strategy."""

from dataclasses import replace

import pytest

from compositions.model import Stage, all_sequential
from compositions.notation import parse
from control.objectives import objective_of
from control.settings import Settings
from control.strategies import make_strategy
from control.what_if import Present, Question, outlook
from profiler.slo import Slo
from profiler.snapshot import InputNow, Snapshot, StageProfile
from service.schemas.compositions import Possibility, WhatIf, what_if_body

STAGES = [Stage("f1"), Stage("f2"), Stage("f3")]
TEXTS = {"1": "Seq-Seq-Seq", "2": "Par-Seq-Seq", "4": "Seq-Seq-Par", "7": "Par-Par-Par"}
FOLLOW = Slo("throughput", "input_rate")
COMPOSITIONS = tuple(replace(parse(text, STAGES), name=name) for name, text in TEXTS.items())


def present(rate_per_s: float = 50.0, slo: Slo | None = None, strategy: str = "expected-cost") -> Present:
    """An app that its strategy has watched for 100 s."""
    objective, made = None if slo is None else objective_of(slo), make_strategy(strategy)
    for turn in range(401):
        made.observe(seen(rate_per_s, turn / 4), objective, STAGES)
    return Present(seen(rate_per_s), COMPOSITIONS[0], COMPOSITIONS, objective, made, Settings())


def seen(rate_per_s: float, now_s: float = 100.0, cpu_s: float = 0.001) -> Snapshot:
    done = int(rate_per_s * now_s)
    profile = StageProfile("f1", 0.01, cpu_s, 0.0, 0.01, 0.01, 500, done=done, worked_s=0.01 * done)
    profiles = tuple(replace(profile, name=f"f{k}") for k in (1, 2, 3))
    nothing = dict.fromkeys(("latency", "inside", "queued_change_per_s"))
    zeros = dict.fromkeys(("stable_since_s", "queued", "hop_s"), 0.0)
    rates = {"window_start_s": now_s - 10.0, "input_rate_per_s": rate_per_s, "throughput_per_s": rate_per_s}
    known = {"composition": "1", "switching": False, "delivered": 500, "in_flight": 1, "cores": 4, "workers_alive": 3}
    known |= {"stages": profiles, "input": InputNow(arrived=done)}
    return Snapshot(now_s=now_s, **{**nothing, **zeros, **rates, **known})


def answer(question: Question, known: Present) -> WhatIf:
    return what_if_body("three", outlook(question, known))


def row(found: WhatIf, name: str) -> Possibility:
    return next(each for each in found.compositions if each.name == name)


def test_capacity_follows_the_replicas_of_parallel_groups() -> None:
    found = answer(Question(replicas=4), present())
    assert row(found, "7").predicted_throughput_per_s == pytest.approx(400, rel=0.01)
    assert row(found, "7").workers == 12
    assert row(found, "1").predicted_throughput_per_s == pytest.approx(100, rel=0.01)


def test_cores_limit_what_replicas_could_do() -> None:
    busy = replace(present(), snapshot=seen(50.0, cpu_s=0.01))
    few, many = (row(answer(Question(cores=cores), busy), "7") for cores in (1, 64))
    assert few.predicted_throughput_per_s == pytest.approx(1 / 0.03, rel=0.01)
    assert few.limited_by == ["cores"]
    assert many.predicted_throughput_per_s > 5 * few.predicted_throughput_per_s


def test_latency_without_end_is_not_a_number() -> None:
    slow = row(answer(Question(rate_per_s=150.0), present()), "1")
    assert slow.overloaded is True
    assert slow.predicted_latency_ms is None


@pytest.mark.parametrize(("rate_per_s", "chosen"), [(50.0, "1"), (170.0, "7")])
def test_the_choice_is_the_managers_at_that_rate_and_asking_changes_nothing(rate_per_s: float, chosen: str) -> None:
    known, question = present(slo=FOLLOW), Question(rate_per_s=rate_per_s)
    found = answer(question, known)
    assert found.choice == chosen, found.reason
    assert row(found, chosen).meets is True
    answer(Question(cores=1, replicas=9, rate_per_s=9000.0), known)
    assert answer(question, known) == found


def test_those_that_meet_the_slo_come_first_then_those_with_fewer_workers() -> None:
    found = answer(Question(rate_per_s=150.0), present(slo=FOLLOW))
    ranks = [(each.meets is False, each.workers) for each in found.compositions]
    assert ranks == sorted(ranks)
    assert len({meets for meets, _ in ranks}) == 2


def test_without_an_slo_or_a_profile_nothing_is_chosen_and_it_says_why() -> None:
    assert answer(Question(), present()).choice is None
    bare = replace(present(), snapshot=replace(present().snapshot, stages=()))
    found = answer(Question(), bare)
    assert found.reason == "nothing has been measured of f1 yet"
    assert all(each.predicted_throughput_per_s is None for each in found.compositions)


@pytest.mark.parametrize("strategy", ["vogel", "pdp21", "static"])
def test_every_strategy_can_be_asked(strategy: str) -> None:
    found = answer(Question(rate_per_s=170.0), present(slo=FOLLOW, strategy=strategy))
    assert found.reason


def test_an_active_composition_that_is_not_among_the_known_ones() -> None:
    known = replace(present(slo=FOLLOW), active=all_sequential(STAGES))
    assert answer(Question(replicas=3), known).choice in {*TEXTS, "sequential"}
