"""One capacity model, two who ask it: what can be chosen from, and what if."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from compositions.batching import Batching
from compositions.capacity.prediction import Predictions
from compositions.model import Stage
from compositions.notation import parse
from control.expect import Unmeasured, expect
from control.objectives import objective_of
from control.settings import Settings
from control.strategies import make_strategy
from control.what_if import Present, Question, outlook
from profiler.slo import Slo
from profiler.snapshot import Demand, InputNow, RateWindow, SizeLeftOpen, Snapshot, StageProfile
from service.schemas.compositions import Choice, Possibility, what_if_body

STAGES = [Stage("f1"), Stage("f2"), Stage("f3")]
TEXTS = {"1": "Seq-Seq-Seq", "2": "Par-Seq-Seq", "4": "Seq-Seq-Par", "7": "Par-Par-Par"}
COMPOSITIONS = tuple(replace(parse(text, STAGES), name=name) for name, text in TEXTS.items())
LATENCY = objective_of(Slo("latency", 20.0))
RISING = (RateWindow(40.0, 1.0), RateWindow(70.0, 1.0))
"""A set rate that was risen a second ago: the mean of the window lags behind."""
COUNTED = (RateWindow(50.0, 1.0, counted=True), RateWindow(52.0, 1.0, counted=True))
"""Arrivals of independent users: they come in bunches."""


def seen(windows: tuple[RateWindow, ...] = ()) -> Snapshot:
    profiles = tuple(StageProfile(f"f{k}", 0.01, 0.001, 0.3, 0.01, 0.01, 500) for k in (1, 2, 3))
    return Snapshot(
        100.0, "1", False, 0.0, 90.0, 50.0, 50.0, 500, None, None, 0, None, 1, profiles, 4, 3, 3e-4, InputNow(windows)
    )  # fmt: skip


def present(snapshot: Snapshot) -> Present:
    return Present(snapshot, COMPOSITIONS[0], COMPOSITIONS, LATENCY, make_strategy("expected-cost"), Settings())


def of(body: Sequence[Choice | Possibility]) -> dict[str, tuple[float | None, float | None]]:
    return {each.name: (each.predicted_throughput_per_s, each.predicted_latency_ms) for each in body}


@pytest.mark.parametrize("windows", [(), RISING, COUNTED], ids=["steady", "rising", "counted"])
def test_compositions_and_what_if_say_the_same(windows: tuple[RateWindow, ...]) -> None:
    snapshot = seen(windows)
    offered = of(Choice.all_of("three", COMPOSITIONS, COMPOSITIONS[0], snapshot))
    asked = of(what_if_body("three", outlook(Question(), present(snapshot))).compositions)
    assert set(offered) == set(TEXTS)
    assert offered == asked


def test_users_who_come_in_bunches_wait_longer() -> None:
    assert _latency_s(seen(COUNTED)) > 1.05 * _latency_s(replace(seen(), input_rate_per_s=50.0))


def test_what_travels_in_bundles_is_told_at_their_size_and_at_a_lower_rate_they_hold_fewer() -> None:
    one_by_one = seen()
    stages = tuple(replace(stage, bundle_items=5.0) for stage in one_by_one.stages)
    bundles = replace(one_by_one, hop_s=0.01, stages=stages)
    first = expect(COMPOSITIONS, bundles)[0]
    assert first.throughput_per_s == pytest.approx(5 / (5 * 0.01 + 0.01))
    assert first.base_latency_s == pytest.approx(3 * (5 * 0.01 + 0.01))
    for rate_per_s, items in ((20.0, 2), (5.0, 1), (80.0, 5)):
        options = outlook(Question(rate_per_s=rate_per_s), present(bundles)).options
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


def test_a_stage_without_a_profile_is_an_answer_with_its_name() -> None:
    snapshot = replace(seen(), stages=seen().stages[:2])
    assert expect(COMPOSITIONS, snapshot) == Unmeasured("f3")
    assert of(Choice.all_of("three", COMPOSITIONS, COMPOSITIONS[0], snapshot))["7"] == (None, None)
    assert outlook(Question(), present(snapshot)).reason == "nothing has been measured of f3 yet"


def _latency_s(snapshot: Snapshot) -> float:
    return float(expect(COMPOSITIONS[:1], snapshot).latency_s[0])
