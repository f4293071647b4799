"""Reading a snapshot against an SLO: whose doing is a miss?"""

from dataclasses import replace

import pytest

from control.assess import assess
from control.objectives import objective_of
from control.reading import current_rate, needed_rate
from control.settings import Measuring
from control.strategies import STRATEGIES, StrategyError, check_takes
from profiler.budget import Budget, BudgetError, parse_budget
from profiler.slo import Slo, SloError, SloStatus, parse_slo, together
from profiler.snapshot import Demand, InputNow, LatencyStats, RateWindow
from service.daemon.store.store import slo_from_json, slo_to_json
from tests.support.figures import NOTHING_SEEN, latency

MEASURING = Measuring()
RATE = objective_of(Slo("throughput", "input_rate"))
LATENCY = objective_of(Slo("latency", 100.0))


CALM = replace(
    NOTHING_SEEN, now_s=50.0, window_start_s=40.0, input_rate_per_s=10.0, throughput_per_s=10.0, delivered=100,
    latency=latency(0.1), inside=latency(0.1), queued_change_per_s=0.0, in_flight=2,
)  # fmt: skip


def test_too_few_samples_is_an_answer_with_a_name() -> None:
    seen = assess(RATE, replace(CALM, window_start_s=48.0, delivered=3), MEASURING)
    assert (seen.status, seen.meets) == (SloStatus.UNKNOWN, None)
    assert seen.reason == "no verdict on the objective yet: 3 of the required 10 deliveries in 2.0 s"


def test_nothing_delivered_where_much_was_due_is_a_violation_not_a_lack_of_samples() -> None:
    stalled = replace(CALM, window_start_s=48.0, delivered=0, throughput_per_s=0.0, latency=None, queued=32)
    assert assess(RATE, stalled, MEASURING).status is SloStatus.VIOLATED


def test_low_throughput_is_not_the_compositions_doing_when_nothing_waits_and_no_buffer_is_full() -> None:
    low = replace(CALM, throughput_per_s=6.0)
    seen = assess(RATE, low, MEASURING)
    assert (seen.status, seen.meets) == (SloStatus.MET, True)
    assert "no items wait" in seen.reason
    full = replace(low, queued=1, input=replace(CALM.input, held_back=True))
    assert assess(RATE, full, MEASURING).meets is False, "the source is held back"


def test_a_target_above_the_input_rate_is_infeasible_for_every_composition() -> None:
    seen = assess(objective_of(Slo("throughput", 50.0)), CALM, MEASURING)
    assert (seen.status, seen.meets) == (SloStatus.INFEASIBLE, True)
    assert "the input is only 10 items/s" in seen.reason


def test_a_backlog_that_is_worked_off_soon_is_not_held_against_the_composition_and_one_that_grows_is() -> None:
    draining = replace(CALM, latency=latency(3.0), queued=20, queued_change_per_s=-5.0)
    seen = assess(LATENCY, draining, MEASURING)
    assert (seen.status, seen.meets, seen.latency_s) == (SloStatus.VIOLATED, True, 0.1)
    assert "the backlog of 20 items will be cleared in 4.0 s" in seen.reason
    assert assess(LATENCY, replace(draining, queued_change_per_s=5.0), MEASURING).meets is False


def test_a_set_rate_counts_at_once_a_dip_of_it_does_not_lower_the_need() -> None:
    risen = replace(CALM, input=InputNow((RateWindow(10, 1), RateWindow(30, 1))))
    fallen = replace(CALM, input=InputNow((RateWindow(4, 1), RateWindow(4, 1))))
    assert (current_rate(risen), needed_rate(risen)) == (30, 30)
    assert (current_rate(fallen), needed_rate(fallen)) == (4, 10)


@pytest.mark.parametrize(
    ("slo", "stalled_s", "status"),
    [
        (Slo("latency", 8000.0), 7.9, SloStatus.UNKNOWN),
        (Slo("latency", 8000.0), 8.1, SloStatus.VIOLATED),
        (Slo("throughput", 0.25), 14.0, SloStatus.UNKNOWN),
        (Slo("throughput", 0.25), 16.0, SloStatus.VIOLATED),
    ],
)
def test_a_stream_that_stands_still_violates_its_objective(slo: Slo, stalled_s: float, status: SloStatus) -> None:
    """Nothing was delivered that could be judged; what is inside is late already. Whose doing it is nobody knows."""
    demand = Demand(40, 40, 0, 0.0, stalled_s=stalled_s)
    silent = replace(CALM, latency=None, throughput_per_s=None, delivered=0, demand=demand)
    found = assess(objective_of(slo), silent, MEASURING)
    assert (found.status, found.meets) == (status, None)
    if status is SloStatus.VIOLATED:
        assert f"no item was delivered for {stalled_s:.0f} s" in found.reason
    assert assess(objective_of(slo), silent.as_read(), MEASURING).status is SloStatus.UNKNOWN, "as the papers measure"


# --- several objectives at once, and what may be spent ----------------------------------------------------------------


BOTH = together([parse_slo("p95<=100ms"), parse_slo("throughput>=input")], Budget(workers=8))
JOINT = objective_of(BOTH)
STATS = LatencyStats(0.05, 0.05, 0.06, 0.07, 50)
WELL = replace(CALM, delivered=60, latency=STATS, inside=STATS)
LATE = replace(WELL, latency=replace(STATS, p95_s=0.3))
SHORT = replace(WELL, throughput_per_s=6.0, queued=20, queued_change_per_s=4.0)


def test_it_is_met_when_all_is_met_and_the_reason_is_of_what_is_missed() -> None:
    verdicts = [JOINT.judge(seen.latency, seen.throughput_per_s, seen.input_rate_per_s) for seen in (WELL, LATE, SHORT)]
    assert [verdict.status for verdict in verdicts] == [SloStatus.MET, SloStatus.VIOLATED, SloStatus.VIOLATED]
    met = "p95 latency is 60 ms, within the objective of 120 ms, and throughput is 10 items/s, meeting the objective of"
    assert verdicts[0].reason == f"{met} 8 items/s"
    assert verdicts[1].reason == "p95 latency is 300 ms, above the objective of 120 ms"
    assert verdicts[2].reason == "throughput is 6 items/s, below the objective of 8 items/s"
    assert JOINT.judge(None, 10.0, 10.0).status is SloStatus.UNKNOWN


def test_a_miss_is_the_compositions_doing_if_it_is_for_one_of_them() -> None:
    assert JOINT.whose_doing(SHORT, "", 30.0).meets is False
    assert JOINT.whose_doing(replace(SHORT, queued=0), "", 30.0).meets is True, "nothing waits: it follows the input"
    assert JOINT.whose_doing(LATE, "", 30.0).reason == "p95 latency is 300 ms, above the objective of 120 ms"


def test_what_is_shown_is_the_first_and_what_batching_holds_to_the_strictest_latency() -> None:
    several = objective_of(together([parse_slo("throughput=10/s"), parse_slo("p50=80ms"), parse_slo("p99=300ms")]))
    assert (several.target(None), several.bound(None), several.statistic) == (10.0, 8.0, None)
    assert (several.item_target_ms, several.quantile) == (80.0, 0.5)
    assert several.room(10.0, STATS.at, None) == pytest.approx(0.25)


def test_it_is_kept_as_it_was_asked_for() -> None:
    assert slo_from_json(slo_to_json(BOTH)) == BOTH
    assert [each.asked for each in BOTH.each] == ["p95 latency ≤ 100 ms", "throughput ≥ the input rate"]


@pytest.mark.parametrize(
    ("slos", "budget", "sentence"),
    [
        ([], None, "there is no objective; accepted are latency=400ms"),
        (["p95=1s"], Budget(workers=0), "budget workers 0 must be a whole number from 1 to 100,000"),
        (["throughput<=5/s"], None, "a throughput is ≥ its target, not <="),
    ],
)
def test_what_cannot_hold_together_is_refused(slos: list[str], budget: Budget | None, sentence: str) -> None:
    with pytest.raises(SloError) as refused:
        together([parse_slo(text) for text in slos], budget)
    assert sentence in str(refused.value)


def test_a_budget_in_words() -> None:
    assert parse_budget("workers=8, cores=2.5") == Budget(8, 2.5)
    assert [parse_budget(each).told() for each in ("cores=1", "workers=8")] == ["1 core", "8 workers"]
    assert Budget(8, 3.0).within(Budget(cores=2.0)) == Budget(8, 2.0)
    assert together([parse_slo("p95=1s")], Budget()).budget is None


@pytest.mark.parametrize("text", ["workers", "money=3", "workers=x", "workers=0", "cores=nan", "workers=1,workers=2"])
def test_a_budget_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(BudgetError):
        parse_budget(text)


def test_published_strategies_take_one_objective() -> None:
    for name, make in STRATEGIES.items():
        check_takes(name, Slo("latency", 400.0))
        if not make().several:
            with pytest.raises(StrategyError, match=f"strategy {name} supports one objective and no budget, not 2"):
                check_takes(name, BOTH)
            with pytest.raises(StrategyError, match="not a budget; use strategy expected-cost"):
                check_takes(name, replace(BOTH, also=()))
