"""Latency and throughput behind one type: each owns its bound, its worth, whose doing a miss is, and its words."""

import pickle
from dataclasses import replace
from typing import Any

import pytest

from compositions.errors import RecomposeError
from control.assess import assess
from control.objectives import objective_of
from control.settings import Measuring
from profiler.slo import INPUT_RATE, Slo, SloStatus, together
from profiler.snapshot import Demand, LatencyFrom, Snapshot
from service.daemon.store.store import slo_from_json, slo_to_json
from tests.support.figures import NOTHING_SEEN, latency

LATENCY, RATE = objective_of(Slo("latency", 100.0)), objective_of(Slo("throughput", "input_rate"))
STATS, MET = latency(0.3), latency(0.1, 260)
LATE = replace(latency(9.0, 260), from_read=MET)
BEHIND = replace(
    NOTHING_SEEN, now_s=50.0, window_start_s=40.0, input_rate_per_s=10.0, throughput_per_s=6.0, delivered=60,
    latency=STATS, inside=replace(STATS, mean_s=0.1), queued=20, queued_change_per_s=-5.0,
)  # fmt: skip
DEMAND = Demand(2900, 2600, 0, 10.0, 3.0, offered_per_s=29.0, admitted_per_s=26.0, missed_per_s=0.0, held_s=60)
KEEP_UP = Slo("throughput", INPUT_RATE)
FAST = Slo("latency", 400)


def test_the_bound_is_the_target_and_its_threshold_on_the_side_that_counts() -> None:
    assert LATENCY.bound(None) == 120.0
    assert (RATE.bound(10.0), RATE.bound(None)) == (8.0, None)
    assert (LATENCY.target(None), RATE.target(10.0)) == (100.0, 10.0)
    assert (LATENCY.item_target_ms, RATE.item_target_ms) == (100.0, None), "only a latency holds each item to a target"
    assert (LATENCY.worth(90.0) > LATENCY.worth(100.0), RATE.worth(10.0) > RATE.worth(9.0)) == (True, True)


def test_a_value_is_within_the_bound_or_nobody_knows() -> None:
    def within(latency_ms: float) -> float | None:
        return LATENCY.room(None, lambda _: latency_ms / 1e3, None)

    assert (within(120.0), within(90.0), within(150.0)) == (0.0, pytest.approx(0.25), pytest.approx(-0.25))
    assert [RATE.room(each, STATS.at, 10.0) for each in (8.0, 6.0, None)] == [0.0, pytest.approx(-0.25), None]
    assert RATE.room(8.0, STATS.at, None) is None


def test_a_latency_is_excused_by_a_backlog_that_is_soon_gone_a_throughput_by_an_empty_queue() -> None:
    excused = LATENCY.whose_doing(BEHIND, "late", patience_s=30.0)
    assert (excused.status, excused.meets) == (SloStatus.VIOLATED, True)
    assert LATENCY.whose_doing(BEHIND, "late", patience_s=3.0).meets is False
    assert RATE.whose_doing(BEHIND, "short", patience_s=30.0).meets is False
    assert RATE.whose_doing(replace(BEHIND, queued=0), "short", patience_s=30.0).meets is True


@pytest.mark.parametrize(
    "text",
    [
        '{"metric":"latency","target":400.0,"threshold":0.2,"statistic":"p95"}',
        '{"metric":"throughput","target":"input_rate","threshold":0.2,"statistic":"mean"}',
    ],
)
def test_state_databases_of_before_are_read_and_written_as_before(text: str) -> None:
    slo = slo_from_json(text)
    assert slo_to_json(slo) == text
    assert objective_of(slo).slo is slo
    assert pickle.loads(pickle.dumps(slo)) == slo


def test_the_fastest_has_no_bound_that_a_measurement_could_miss() -> None:
    fastest = objective_of(Slo("throughput", "fastest"))
    assert (fastest.bound(10.0), fastest.target(10.0)) == (None, None)
    verdict = fastest.judge(STATS, 6.0, 10.0)
    assert (verdict.status, verdict.reason) == (SloStatus.MET, "throughput 6 items/s")
    assert fastest.judge(STATS, None, 10.0).status is SloStatus.UNKNOWN


def test_the_fastest_stands_alone() -> None:
    with pytest.raises(RecomposeError, match="cannot be combined with other objectives"):
        together([Slo("throughput", "fastest"), Slo("latency", 100.0)])


def snapshot(**changes: Any) -> Snapshot:
    """26 of 29 items/s for a minute: the queue is full, and 300 more items are due."""
    known = replace(
        NOTHING_SEEN, now_s=100.0, window_start_s=90.0, input_rate_per_s=29.0, throughput_per_s=26.0, delivered=260,
        latency=replace(MET, from_read=MET), inside=MET, queued=32, queued_change_per_s=0.0, demand=DEMAND,
    )  # fmt: skip
    return replace(known, **changes)


def judged(slo: Slo, seen: Snapshot, latency_from: LatencyFrom = LatencyFrom.DUE) -> tuple[SloStatus, bool | None]:
    found = assess(objective_of(slo, latency_from), seen, Measuring())
    return found.status, found.meets


@pytest.mark.parametrize("slo", [KEEP_UP, FAST])
@pytest.mark.parametrize(
    ("demand", "judgement"),
    [
        pytest.param({}, (SloStatus.VIOLATED, False), id="more is due each second than comes out"),
        pytest.param({"growth_per_s": 0.0, "missed_per_s": 3.0}, (SloStatus.VIOLATED, False), id="items are given up"),
        pytest.param({"held_s": 4.0}, (SloStatus.VIOLATED, None), id="for less than a window"),
        pytest.param({"held_s": 0.2}, (SloStatus.MET, True), id="for a moment"),
        pytest.param({"growth_per_s": 0.0}, (SloStatus.MET, True), id="a backlog that does not grow"),
    ],
)
def test_a_backlog_that_grows_is_a_miss(slo: Slo, demand: dict[str, float], judgement: object) -> None:
    assert judged(slo, snapshot(demand=replace(DEMAND, **demand))) == judgement


@pytest.mark.parametrize("slo", [KEEP_UP, FAST])
def test_as_read_there_is_no_backlog(slo: Slo) -> None:
    assert judged(slo, snapshot().as_read(), LatencyFrom.READ) == (SloStatus.MET, True)


def test_a_backlog_that_does_not_grow_is_judged_by_what_it_does_to_the_window() -> None:
    steady = snapshot(demand=replace(DEMAND, growth_per_s=0.0), latency=LATE)
    assert judged(FAST, steady)[0] is SloStatus.VIOLATED


def test_a_rate_that_was_asked_for_by_number_may_leave_the_rest_behind() -> None:
    assert judged(Slo("throughput", 20.0), snapshot()) == (SloStatus.MET, True)


def test_the_sentence_says_what_waits_and_how_fast_it_grows() -> None:
    found = assess(objective_of(KEEP_UP, LatencyFrom.DUE), snapshot(), Measuring())
    assert found.reason == "332 items wait and 3 more each second: throughput does not keep up with 29 items/s"


def test_the_papers_see_neither_what_waits_at_the_source_nor_since_when() -> None:
    seen = snapshot(latency=LATE).as_read()
    assert (seen.latency, seen.backlog, seen.backlog_change_per_s) == (MET, 32, 0.0)
    assert snapshot().backlog == 332
