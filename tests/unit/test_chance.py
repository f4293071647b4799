"""What chance brings is neither believed nor held against a composition for long."""

from __future__ import annotations

from dataclasses import replace

import pytest

from compositions.model import Stage
from compositions.notation import parse
from control.assess import Assessment
from control.decisions import Trigger
from control.forecast.memory import Verdicts
from control.objectives import objective_of
from control.settings import Settings
from control.situation import Situation
from control.strategies.model import credible
from profiler.slo import SloStatus, parse_slo
from profiler.snapshot import InputNow, LatencyStats, RateWindow, Snapshot, StageProfile

STAGES = [Stage("a"), Stage("b")]
ONE = parse("Seq(a,b)", STAGES, app="test")
LATENCY = objective_of(parse_slo("latency=100ms"))
RATE = objective_of(parse_slo("throughput=input_rate"))


def shot(now_s: float = 100.0, *, throughput: float = 9.0, counted: bool = False, cv: float = 0.5) -> Snapshot:
    profile = tuple(StageProfile(stage.name, 0.04, 0.04, cv, 0.04, 0.08, 100) for stage in STAGES)
    latency = LatencyStats(0.1, 0.1, 0.2, 0.2, 25)
    windows = (RateWindow(10.0, 1.0, True), RateWindow(10.0, 1.0, True)) if counted else ()
    return Snapshot(
        now_s, "1", False, 0.0, now_s - 10, 10.0, throughput, 25, latency, None, 9, 1.0, 1, profile, 4, 1, 3e-4,
        InputNow(windows),
    )  # fmt: skip


def situation(snapshot: Snapshot) -> Situation:
    seen = Assessment(SloStatus.MET, True, "met")
    return Situation(Trigger.PROFILE, snapshot, LATENCY, seen, ONE, (ONE,), Settings())


def test_a_latency_is_believed_the_less_the_fuller_the_group() -> None:
    at = situation(shot())
    believed = [credible(2.0, at, busy) for busy in (0.0, 0.6, 0.8, 0.99)]
    assert believed == sorted(believed, reverse=True)
    assert believed[0] > 1.8
    assert believed[-1] == 1.0


def test_a_capacity_of_a_paced_load_is_believed_as_it_is() -> None:
    assert credible(2.0, situation(shot())) == 2.0


@pytest.mark.parametrize(("misses", "believed_s"), [(1, 120.0), (2, 240.0), (4, 960.0), (9, 1800.0), (2000, 1800.0)])
def test_each_miss_is_believed_for_twice_as_long_as_the_one_before(misses: int, believed_s: float) -> None:
    verdicts, then = Verdicts(), shot()
    for _ in range(misses):
        verdicts.record(ONE, False, LATENCY, then)
    just, later = (replace(then, now_s=then.now_s + believed_s + extra_s) for extra_s in (-1.0, 1.0))
    assert verdicts.recall(ONE.shape, LATENCY, just, 1800.0) is False
    assert verdicts.recall(ONE.shape, LATENCY, later, 1800.0) is None
    assert verdicts.missed_lately(LATENCY, just, 1800.0, 0.2) == {ONE.shape}
    assert not verdicts.missed_lately(LATENCY, later, 1800.0, 0.2)


def test_a_rate_that_falls_short_tells_with_the_scatter_of_the_stages() -> None:
    excess = RATE.excess(shot(throughput=7.0, counted=True, cv=1.5))
    assert excess is not None
    assert excess.mean == pytest.approx(1 - 7.0 / 8.0)
    assert excess.variance == pytest.approx(2.25)
    assert RATE.excess(shot(throughput=7.0)) is None, "of a paced load there is little chance in it"
