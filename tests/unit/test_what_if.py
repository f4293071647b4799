"""One capacity model, two who ask it: what can be chosen from, and what if circumstances were others."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from compositions.batching import Batching
from compositions.capacity.prediction import Predictions
from compositions.model import Stage, all_sequential
from compositions.notation import parse
from control.expect import Unmeasured, expect
from control.objectives import objective_of
from control.settings import Settings
from control.strategies import make_strategy
from control.what_if import Present, Question, outlook
from profiler.slo import Slo
from profiler.snapshot import Demand, InputNow, RateWindow, SizeLeftOpen, Snapshot
from service.schemas.compositions import Choice, Possibility, WhatIf, what_if_body
from tests.support.figures import NOTHING_SEEN, profile

STAGES = [Stage("f1"), Stage("f2"), Stage("f3")]
TEXTS = {"1": "Seq-Seq-Seq", "2": "Par-Seq-Seq", "4": "Seq-Seq-Par", "7": "Par-Par-Par"}
FOLLOW, LATENCY = Slo("throughput", "input_rate"), Slo("latency", 20.0)
COMPOSITIONS = tuple(replace(parse(text, STAGES), name=name) for name, text in TEXTS.items())


def present(rate_per_s: float = 50.0, slo: Slo | None = None, strategy: str = "expected-cost") -> Present:
    """An app that its strategy has watched for 100 s."""
    objective, made = None if slo is None else objective_of(slo), make_strategy(strategy)
    for turn in range(401):
        made.observe(seen(rate_per_s, turn / 4), objective, STAGES)
    return Present(seen(rate_per_s), COMPOSITIONS[0], COMPOSITIONS, objective, made, Settings())


def seen(
    rate_per_s: float = 50.0, now_s: float = 100.0, cpu_s: float = 0.001, windows: tuple[RateWindow, ...] = ()
) -> Snapshot:
    done = int(rate_per_s * now_s)
    each = {"cv": 0.3, "samples": 500, "done": done, "worked_s": 0.01 * done}
    return replace(
        NOTHING_SEEN, now_s=now_s, window_start_s=now_s - 10.0, input_rate_per_s=rate_per_s, delivered=500,
        throughput_per_s=rate_per_s, in_flight=1, hop_s=0.0, input=InputNow(windows, arrived=done),
        stages=tuple(profile(f"f{k}", 0.01, cpu_s, **each) for k in (1, 2, 3)),
    )  # fmt: skip


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
    known = present()
    assert answer(Question(), known).choice is None
    snapshot = replace(known.snapshot, stages=known.snapshot.stages[:2])
    assert expect(COMPOSITIONS, snapshot) == Unmeasured("f3")
    assert of(Choice.all_of("three", COMPOSITIONS, COMPOSITIONS[0], snapshot))["7"] == (None, None)
    found = answer(Question(), replace(known, snapshot=snapshot))
    assert found.reason == "stage f3 was not measured yet"
    assert all(each.predicted_throughput_per_s is None for each in found.compositions)


@pytest.mark.parametrize("strategy", ["vogel", "pdp21", "static"])
def test_every_strategy_can_be_asked(strategy: str) -> None:
    found = answer(Question(rate_per_s=170.0), present(slo=FOLLOW, strategy=strategy))
    assert found.reason


def test_an_active_composition_that_is_not_among_the_known_ones() -> None:
    known = replace(present(slo=FOLLOW), active=all_sequential(STAGES))
    assert answer(Question(replicas=3), known).choice in {*TEXTS, "sequential"}


RISING = (RateWindow(40.0, 1.0), RateWindow(70.0, 1.0))
"""A set rate that was risen a second ago: the mean of the window lags behind."""
COUNTED = (RateWindow(50.0, 1.0, counted=True), RateWindow(52.0, 1.0, counted=True))
"""Arrivals of independent users: they come in bunches."""


def of(body: Sequence[Choice | Possibility]) -> dict[str, tuple[float | None, float | None]]:
    return {each.name: (each.predicted_throughput_per_s, each.predicted_latency_ms) for each in body}


@pytest.mark.parametrize("windows", [(), RISING, COUNTED], ids=["steady", "rising", "counted"])
def test_compositions_and_what_if_say_the_same(windows: tuple[RateWindow, ...]) -> None:
    snapshot = seen(windows=windows)
    offered = of(Choice.all_of("three", COMPOSITIONS, COMPOSITIONS[0], snapshot))
    asked = of(answer(Question(), replace(present(slo=LATENCY), snapshot=snapshot)).compositions)
    assert set(offered) == set(TEXTS)
    assert offered == asked


def test_users_who_come_in_bunches_wait_longer() -> None:
    assert _latency_s(seen(windows=COUNTED)) > 1.05 * _latency_s(seen())


def test_what_travels_in_bundles_is_told_at_their_size_and_at_a_lower_rate_they_hold_fewer() -> None:
    one_by_one = seen()
    stages = tuple(replace(stage, bundle_items=5.0) for stage in one_by_one.stages)
    bundles = replace(one_by_one, hop_s=0.01, stages=stages)
    first = expect(COMPOSITIONS, bundles)[0]
    assert first.throughput_per_s == pytest.approx(5 / (5 * 0.01 + 0.01))
    assert first.base_latency_s == pytest.approx(3 * (5 * 0.01 + 0.01))
    known = replace(present(slo=LATENCY), snapshot=bundles)
    for rate_per_s, items in ((20.0, 2), (5.0, 1), (80.0, 5)):
        options = outlook(Question(rate_per_s=rate_per_s), known).options
        (told,) = (each.prediction for each in options if each.composition.name == "1")
        assert told.throughput_per_s == pytest.approx(items / (items * 0.01 + 0.01))


def test_each_composition_is_judged_with_the_bundles_that_it_would_have() -> None:
    """Its own where it names a size; else, where nobody has named one, what the rule says for so many groups."""
    apart, together = parse("Seq-Seq-Seq", STAGES, name="a"), parse("Seq(f1,f2,f3)", STAGES, name="b")
    table = [apart, together, replace(apart, name="c", batch=Batching(items=5))]
    one_by_one = replace(seen(), hop_s=0.01)
    # A tenth of 30 ms of work is 3 ms: three hops of 10 ms are that for ten items, one is that for three.
    rule = replace(one_by_one, demand=Demand(0, 0, 0, 0.0, bundle_limit=8, size_left_open=SizeLeftOpen(target_s=10.0)))
    assert _sizes(expect(table, rule)) == [8, 2, 5]
    further = Demand(0, 0, 0, 0.0, bundle_limit=32, size_left_open=SizeLeftOpen(target_s=10.0, times=4.0))
    assert _sizes(expect(table, replace(one_by_one, demand=further))) == [32, 8, 5]
    impatient = Demand(0, 0, 0, 0.0, bundle_limit=1, size_left_open=SizeLeftOpen(target_s=0.1))
    assert _sizes(expect(table, replace(one_by_one, demand=impatient))) == [1, 1, 5]
    named = Demand(0, 0, 0, 0.0, bundle_limit=10)
    assert _sizes(expect(table, replace(one_by_one, demand=named))) == [10, 10, 5]
    assert expect(table, rule).throughput_per_s == pytest.approx([8 / 0.09, 2 / 0.07, 5 / 0.06])


def _sizes(told: Predictions) -> list[float]:
    return [each.bundle_items for each in told]


def _latency_s(snapshot: Snapshot) -> float:
    return float(expect(COMPOSITIONS[:1], snapshot).latency_s[0])
