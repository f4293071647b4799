"""Several things at once, and what may be spent: the worst of them counts, and what gives way is told."""

from dataclasses import replace

import pytest

from control.objectives import objective_of
from control.strategies import STRATEGIES, StrategyError, check_takes
from profiler.budget import Budget, BudgetError, parse_budget
from profiler.slo import Slo, SloError, SloStatus, parse_slo, together
from profiler.snapshot import LatencyStats, Snapshot
from service.daemon.store.tables import slo_from_json, slo_to_json

BOTH = together([parse_slo("p95<=100ms"), parse_slo("throughput>=input")], Budget(workers=8))
JOINT = objective_of(BOTH)
STATS = LatencyStats(0.05, 0.05, 0.06, 0.07, 50)
WELL = Snapshot(50.0, "1", False, 0.0, 40.0, 10.0, 10.0, 60, STATS, STATS, 0, 0.0, 2, (), 4, 2, 3e-4)
LATE = replace(WELL, latency=replace(STATS, p95_s=0.3))
SHORT = replace(WELL, throughput_per_s=6.0, queued=20, queued_change_per_s=4.0)


def test_it_is_met_when_all_is_met_and_the_reason_is_of_what_is_missed() -> None:
    verdicts = [JOINT.judge(seen.latency, seen.throughput_per_s, seen.input_rate_per_s) for seen in (WELL, LATE, SHORT)]
    assert [verdict.status for verdict in verdicts] == [SloStatus.MET, SloStatus.VIOLATED, SloStatus.VIOLATED]
    assert verdicts[0].reason == "p95 latency 60 ms is at most 120 ms and throughput 10 items/s is at least 8 items/s"
    assert verdicts[1].reason == "p95 latency 300 ms is above 120 ms"
    assert verdicts[2].reason == "throughput 6 items/s is below 8 items/s"
    assert JOINT.judge(None, 10.0, 10.0).status is SloStatus.UNKNOWN


def test_a_miss_is_the_compositions_doing_if_it_is_for_one_of_them() -> None:
    assert JOINT.whose_doing(SHORT, "", 30.0).meets is False
    assert JOINT.whose_doing(replace(SHORT, queued=0), "", 30.0).meets is True, "nothing waits: it follows the input"
    assert JOINT.whose_doing(LATE, "", 30.0).reason == "p95 latency 300 ms is above 120 ms"


def test_what_is_shown_is_the_first_and_what_batching_holds_to_the_strictest_latency() -> None:
    several = objective_of(together([parse_slo("throughput=10/s"), parse_slo("p50=80ms"), parse_slo("p99=300ms")]))
    assert (several.target(None), several.bound(None), several.statistic) == (10.0, 8.0, None)
    assert (several.item_target_ms, several.quantile) == (80.0, 0.5)
    assert several.room(10.0, STATS.at, None) == pytest.approx(0.25)


def test_it_is_kept_as_it_was_asked_for() -> None:
    assert slo_from_json(slo_to_json(BOTH)) == BOTH
    assert [each.asked for each in BOTH.each] == ["p95 latency ≤ 100 ms", "throughput ≥ the input rate"]
    assert BOTH.budget is not None
    assert BOTH.budget.told() == "8 workers"


@pytest.mark.parametrize(
    ("slos", "budget", "sentence"),
    [
        ([], None, "there is no objective; accepted are latency=400ms"),
        (["p95=1s", "p95=2s"], None, "p95 latency is asked for twice; one target each, such as the stricter one"),
        (["p95=1s"], Budget(workers=0), "budget workers 0 must be a whole number from 1 to 100,000"),
        (["p95=1s"], Budget(cores=-1), "budget cores -1 must be above 0 and at most 100,000"),
        (["throughput<=5/s"], None, "a throughput is ≥ its target, not <="),
    ],
)
def test_what_cannot_hold_together_is_refused(slos: list[str], budget: Budget | None, sentence: str) -> None:
    with pytest.raises(SloError) as refused:
        together([parse_slo(text) for text in slos], budget)
    assert sentence in str(refused.value)


def test_a_budget_in_words() -> None:
    assert parse_budget("workers=8, cores=2.5") == Budget(8, 2.5)
    assert parse_budget("cores=1").told() == "1 core"
    assert Budget(8, 3.0).within(Budget(cores=2.0)) == Budget(8, 2.0)
    assert together([parse_slo("p95=1s")], Budget()).budget is None


def test_the_share_that_is_asked_for_is_known_wherever_it_stands() -> None:
    assert together([parse_slo("latency=1s"), parse_slo("share90=2s")]).share_asked == 0.9
    assert together([parse_slo("latency=1s"), parse_slo("p99=2s")]).share_asked is None


@pytest.mark.parametrize(
    "text", ["workers", "money=3", "workers=many", "workers=0", "cores=nan", "workers=1,workers=2"]
)
def test_a_budget_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(BudgetError):
        parse_budget(text)


def test_published_strategies_take_one_objective() -> None:
    for name, make in STRATEGIES.items():
        check_takes(name, Slo("latency", 400.0))
        if not make().several:
            with pytest.raises(StrategyError, match=f"strategy {name} takes one objective and no budget, not 2"):
                check_takes(name, BOTH)
            with pytest.raises(StrategyError, match="not a budget; strategy expected-cost does"):
                check_takes(name, replace(BOTH, also=()))
