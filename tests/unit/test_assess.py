"""Reading a snapshot against an SLO: whose doing is a miss?"""

from dataclasses import replace

import pytest

from control.assess import assess
from control.objectives import Objective, objective_of
from control.reading import current_rate, drained_in_s, needed_rate
from control.settings import Measuring
from profiler.slo import Slo, SloStatus
from profiler.snapshot import Demand, InputNow, LatencyStats, RateWindow, Snapshot

MEASURING = Measuring()
RATE = objective_of(Slo("throughput", "input_rate"))
LATENCY = objective_of(Slo("latency", 100.0))


def latency(seconds: float) -> LatencyStats:
    return LatencyStats(seconds, seconds, seconds, seconds, 50)


CALM = Snapshot(
    now_s=50.0,
    composition="1",
    switching=False,
    stable_since_s=0.0,
    window_start_s=40.0,
    input_rate_per_s=10.0,
    throughput_per_s=10.0,
    delivered=100,
    latency=latency(0.1),
    inside=latency(0.1),
    queued=0,
    queued_change_per_s=0.0,
    in_flight=2,
    stages=(),
    cores=4,
    workers_alive=2,
    hop_s=0.0003,
)


def test_without_slo_there_is_nothing_to_judge() -> None:
    assert assess(None, CALM, MEASURING).status is SloStatus.NONE


@pytest.mark.parametrize(("throughput", "meets"), [(10.0, True), (8.0, True), (7.9, False)])
def test_throughput_is_met_down_to_a_fifth_below_the_target(throughput: float, meets: bool) -> None:
    seen = assess(RATE, replace(CALM, throughput_per_s=throughput, queued=20), MEASURING)
    assert seen.meets is meets
    assert seen.status is (SloStatus.MET if meets else SloStatus.VIOLATED)


def test_too_few_samples_is_an_answer_with_a_name() -> None:
    seen = assess(RATE, replace(CALM, window_start_s=48.0, delivered=3), MEASURING)
    assert (seen.status, seen.meets) == (SloStatus.UNKNOWN, None)
    assert seen.reason == "too few samples: 3 of 10 deliveries in 2.0 s"


def test_after_a_while_three_samples_are_enough() -> None:
    assert assess(LATENCY, replace(CALM, delivered=3), MEASURING).meets is True


def test_nothing_delivered_where_much_was_due_is_a_violation_not_a_lack_of_samples() -> None:
    stalled = replace(CALM, window_start_s=48.0, delivered=0, throughput_per_s=0.0, latency=None, queued=32)
    assert assess(RATE, stalled, MEASURING).status is SloStatus.VIOLATED


def test_low_throughput_is_not_the_compositions_doing_when_nothing_waits() -> None:
    seen = assess(RATE, replace(CALM, throughput_per_s=6.0), MEASURING)
    assert (seen.status, seen.meets) == (SloStatus.MET, True)
    assert "nothing waits" in seen.reason


def test_a_full_buffer_holds_the_source_back_however_few_items_it_has() -> None:
    full = replace(CALM, throughput_per_s=6.0, queued=1, input=replace(CALM.input, held_back=True))
    assert assess(RATE, full, MEASURING).meets is False


def test_a_target_above_the_input_rate_is_infeasible_for_every_composition() -> None:
    seen = assess(objective_of(Slo("throughput", 50.0)), CALM, MEASURING)
    assert (seen.status, seen.meets) == (SloStatus.INFEASIBLE, True)
    assert "only 10 items/s come in" in seen.reason


def test_a_backlog_that_is_worked_off_soon_is_not_held_against_the_composition() -> None:
    draining = replace(CALM, latency=latency(3.0), queued=20, queued_change_per_s=-5.0)
    seen = assess(LATENCY, draining, MEASURING)
    assert (seen.status, seen.meets) == (SloStatus.VIOLATED, True)
    assert seen.latency_s == 0.1
    assert "a backlog of 20 items is gone in 4.0 s" in seen.reason


def test_a_backlog_that_grows_is() -> None:
    growing = replace(CALM, latency=latency(3.0), queued=20, queued_change_per_s=5.0)
    assert assess(LATENCY, growing, MEASURING).meets is False


def test_while_switching_nothing_is_known() -> None:
    assert assess(RATE, replace(CALM, switching=True), MEASURING).status is SloStatus.UNKNOWN


@pytest.mark.parametrize(
    ("change", "throughput", "expected"),
    [(-5.0, 10.0, 4.0), (0.0, 14.0, 5.0), (-5.0, 20.0, 2.0), (0.0, 10.0, None), (None, 20.0, None)],
)
def test_drain_time_from_the_queue_or_from_the_surplus(
    change: float | None, throughput: float, expected: float | None
) -> None:
    assert drained_in_s(replace(CALM, queued=20, queued_change_per_s=change, throughput_per_s=throughput)) == expected


def test_a_set_rate_counts_at_once_a_dip_of_it_does_not_lower_the_need() -> None:
    risen = replace(CALM, input=InputNow((RateWindow(10, 1), RateWindow(30, 1))))
    fallen = replace(CALM, input=InputNow((RateWindow(4, 1), RateWindow(4, 1))))
    assert (current_rate(risen), needed_rate(risen)) == (30, 30)
    assert (current_rate(fallen), needed_rate(fallen)) == (4, 10)


@pytest.mark.parametrize(
    ("objective", "stalled_s", "status"),
    [
        (LATENCY, 4.9, SloStatus.UNKNOWN),
        (LATENCY, 5.1, SloStatus.VIOLATED),
        (objective_of(Slo("latency", 8000.0)), 7.9, SloStatus.UNKNOWN),
        (objective_of(Slo("latency", 8000.0)), 8.1, SloStatus.VIOLATED),
        (objective_of(Slo("throughput", 0.25)), 14.0, SloStatus.UNKNOWN),
        (objective_of(Slo("throughput", 0.25)), 16.0, SloStatus.VIOLATED),
    ],
)
def test_a_stream_that_stands_still_violates_its_objective(
    objective: Objective, stalled_s: float, status: SloStatus
) -> None:
    """Nothing was delivered that could be judged; what is inside is late already. Whose doing it is nobody knows."""
    silent = replace(
        CALM, latency=None, throughput_per_s=None, delivered=0, demand=Demand(40, 40, 0, 0.0, stalled_s=stalled_s)
    )
    found = assess(objective, silent, MEASURING)
    assert (found.status, found.meets) == (status, None)
    if status is SloStatus.VIOLATED:
        assert f"nothing has come out for {stalled_s:.0f} s" in found.reason
    assert assess(objective, silent.as_read(), MEASURING).status is SloStatus.UNKNOWN, "as the papers measure"
