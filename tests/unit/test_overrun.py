"""A backlog that grows is a miss whatever the window says, where what was asked for is known."""

from dataclasses import replace
from typing import Any

import pytest

from control.assess import assess
from control.objectives import objective_of
from control.settings import Measuring
from profiler.slo import INPUT_RATE, Slo, SloStatus
from profiler.snapshot import Demand, LatencyFrom, LatencyStats, Snapshot

MET = LatencyStats(0.1, 0.1, 0.1, 0.1, 260)
LATE = LatencyStats(9.0, 9.0, 9.0, 9.0, 260, from_read=MET)
DEMAND = Demand(
    2900, 2600, 0, 10.0, growth_per_s=3.0, offered_per_s=29.0, admitted_per_s=26.0, missed_per_s=0.0, held_s=60
)


def snapshot(**changes: Any) -> Snapshot:
    """26 of 29 items/s for a minute: the queue is full, and 300 more items are due."""
    known = Snapshot(
        now_s=100.0, composition="1", switching=False, stable_since_s=0.0, window_start_s=90.0, input_rate_per_s=29.0,
        throughput_per_s=26.0, delivered=260, latency=replace(MET, from_read=MET), inside=MET, queued=32,
        queued_change_per_s=0.0, in_flight=3, stages=(), cores=2, workers_alive=3, hop_s=0.001, demand=DEMAND,
    )  # fmt: skip
    return replace(known, **changes)


def judged(slo: Slo, seen: Snapshot, latency_from: LatencyFrom = LatencyFrom.DUE) -> tuple[SloStatus, bool | None]:
    found = assess(objective_of(slo, latency_from), seen, Measuring())
    return found.status, found.meets


KEEP_UP = Slo("throughput", INPUT_RATE)
FAST = Slo("latency", 400)


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
    assert found.reason == "332 items wait and 3 more each second: it does not keep up with 29 items/s"


def test_the_papers_see_neither_what_waits_at_the_source_nor_since_when() -> None:
    seen = snapshot(latency=LATE).as_read()
    assert (seen.latency, seen.backlog, seen.backlog_change_per_s) == (MET, 32, 0.0)
    assert snapshot().backlog == 332
