"""SLOs: what may be asked for, when it counts as met, and how often it was."""

import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from control.objectives import objective_of
from profiler.slo import Slo, SloError, SloHits, SloStatus, Verdict, differ, parse_slo, validated
from profiler.snapshot import LatencyStats
from profiler.stats import latency_stats

LATENCY = Slo("latency", 400)
THROUGHPUT = Slo("throughput", 10)
FOLLOW = Slo("throughput", "input_rate")
MET, VIOLATED = Verdict(SloStatus.MET, ""), Verdict(SloStatus.VIOLATED, "")


def latency(mean_ms: float, p95_ms: float = 500) -> LatencyStats:
    return LatencyStats(mean_ms / 1e3, mean_ms / 1e3, p95_ms / 1e3, p95_ms / 1e3, 50)


def judge(slo: Slo, **changes: Any) -> Verdict:
    return objective_of(slo).judge(**{"latency": None, "throughput_per_s": 9.9, "input_rate_per_s": 10.0, **changes})


@pytest.mark.parametrize(
    ("slo", "changes", "status", "reason"),
    [
        (LATENCY, {"latency": latency(480)}, "met", "latency is 480 ms, within the objective of 480 ms"),
        (LATENCY, {"latency": latency(481)}, "violated", "latency is 481 ms, above the objective of 480 ms"),
        (Slo("latency", 400, 0.0), {"latency": latency(401)}, "violated", "latency is 401 ms, above the objective"),
        (Slo("latency", 400, 0.2, "p95"), {"latency": latency(100, 2100)}, "violated", "p95 latency is 2100 ms, above"),
        (LATENCY, {"latency": None}, "unknown", "no latency measured yet"),
        (THROUGHPUT, {"throughput_per_s": 8.0}, "met", "throughput is 8 items/s, meeting the objective of 8 items/s"),
        (THROUGHPUT, {"throughput_per_s": 7.9}, "violated", "throughput is 7.9 items/s, below the objective of 8 "),
        (THROUGHPUT, {"throughput_per_s": None}, "unknown", "no throughput measured yet"),
        (FOLLOW, {"throughput_per_s": 9.9}, "met", "meeting the objective of 8 items/s"),
        (FOLLOW, {"input_rate_per_s": 20.0}, "violated", "throughput is 9.9 items/s, below the objective of 16 "),
        (FOLLOW, {"input_rate_per_s": None}, "unknown", "the input rate is not known yet"),
        (FOLLOW, {"input_rate_per_s": 0.0, "throughput_per_s": 0.0}, "met", "meeting the objective of 0 items/s"),
        (THROUGHPUT, {"throughput_per_s": 0.0}, "violated", "throughput is 0 items/s, below the objective of 8"),
    ],
)
def test_judgement(slo: Slo, changes: dict[str, Any], status: str, reason: str) -> None:
    verdict = judge(slo, **changes)
    assert verdict.status == status
    assert reason in verdict.reason


@pytest.mark.parametrize(("value", "expected"), [(12.0, False), (12.1, True), (8.0, False), (7.9, True)])
def test_values_differ_by_more_than_20_percent(value: float, expected: bool) -> None:
    assert differ(value, 10.0) is expected


@pytest.mark.parametrize(
    ("text", "slo"),
    [
        ("latency=400ms", LATENCY),
        (" latency = 400 ms ", LATENCY),
        ("latency=0.4s", LATENCY),
        ("latency=4e2ms", LATENCY),
        ("throughput=10/s", THROUGHPUT),
        ("throughput=input_rate", FOLLOW),
        ("fastest", Slo("throughput", "fastest")),
        ("throughput=fastest", Slo("throughput", "fastest")),
        ("p95<0.4s", Slo("latency", 400, statistic="p95")),
        ("throughput>10/s", THROUGHPUT),
    ],
)
def test_parse(text: str, slo: Slo) -> None:
    assert parse_slo(text) == slo
    assert parse_slo(text, threshold=0.1) == replace(slo, threshold=0.1)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "SLO '' is not understood: it has no sign; write = before the target; accepted are latency=400ms"),
        ("latency", "it has no sign"),
        ("speed=3/s", "must begin with latency=, p95= or throughput="),
        ("latncy=3s", "(did you mean 'latency'?)"),
        ("latency=400", "'400' has no unit; it must be ms or s"),
        ("p95<400", "'400' has no unit; it must be ms or s"),
        ("p95>400ms", "a latency is ≤ its target, not >="),
        ("latency=400/s", "unit '/s' must be ms or s"),
        ("throughput=10ms", "unit 'ms' must be /s"),
        ("latency=fast", "'fast' is not a number with a unit"),
        ("latency=1.2.3ms", "'1.2.3' is not a number"),
        ("latency=-5ms", "target -5.0 must be a finite number of milliseconds above 0"),
        ("throughput=0/s", "target 0.0 must be a finite number of items/s above 0"),
        ("latency=1e999ms", "target inf must be a finite number"),
        ("share30=1s", "share 0.3 must be in"),
        ("share9.9.9=1s", "not a percentage"),
        ("share95=3/s", "unit"),
        ("latency=input_rate", "target 'input_rate' is for throughput; latency needs milliseconds"),
        ("latency=fastest", "target 'fastest' is for throughput; latency needs milliseconds"),
    ],
)
def test_parse_refuses_with_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(SloError, match=re.escape(sentence)):
        parse_slo(text)


@pytest.mark.parametrize(
    ("slo", "path", "sentence"),
    [
        (Slo("speed", 3), "metric", "metric 'speed' is unknown; accepted are latency and throughput"),  # type: ignore[arg-type]
        (Slo("latency", math.nan), "target", "target nan must be a finite number of milliseconds above 0"),
        (Slo("latency", "soon"), "target", "target 'soon' is not a number"),  # type: ignore[arg-type]
        (Slo("latency", True), "target", "target True is not a number"),
        (Slo("latency", 400, 1.5), "threshold", "threshold 1.5 must be in [0, 1]"),
        (Slo("latency", 400, math.nan), "threshold", "threshold nan must be in [0, 1]"),
        (Slo("latency", 400, 0.2, "p42"), "statistic", "'p42' is unknown; accepted are mean, p50, p95, p99 and share"),  # type: ignore[arg-type]
        (Slo("throughput", 10, 0.2, "p95"), "statistic", "statistic 'p95' is for latency"),
        (Slo("latency", 250.0, statistic="p95", share=0.9), "share", "needs statistic 'share'"),
    ],
)
def test_validation_names_the_field_and_what_would_do(slo: Slo, path: str, sentence: str) -> None:
    with pytest.raises(SloError) as refused:
        validated(slo)
    [fault] = refused.value.faults
    assert fault.path == path
    assert sentence in fault.message


def test_validation_names_every_fault() -> None:
    with pytest.raises(SloError) as refused:
        validated(Slo("throughput", -1, 2.0, "p50"))
    assert [fault.path for fault in refused.value.faults] == ["target", "threshold", "statistic"]


def test_share_of_the_seconds_in_which_it_was_met() -> None:
    hits = SloHits()
    hits.add_second(0.0, Verdict(SloStatus.UNKNOWN, ""))
    assert hits.time_share is None, "a second without an answer counts neither way"
    for at_s, verdict in [(1.0, MET), (1.25, VIOLATED), (2.1, MET), (3.0, VIOLATED), (4.0, MET)]:
        hits.add_second(at_s, verdict)
    assert hits.time_share == 0.75
    assert (hits.seconds, hits.seconds_met) == (4, 3)


@pytest.mark.parametrize(
    ("text", "share", "target"),
    [("share95=250ms", 0.95, 250.0), ("share=0.3s", 0.95, 300.0), ("share99.5=1s", 0.995, 1e3)],
)
def test_a_share_of_the_items_within_a_time(text: str, share: float, target: float) -> None:
    slo = parse_slo(text)
    assert (slo.metric, slo.statistic, slo.quantile, slo.target) == ("latency", "share", share, target)
    assert slo.measured == f"latency of {100 * share:g} % of the items"


def test_a_share_tolerates_nothing_beyond_its_target() -> None:
    latency = latency_stats(np.array([0.1] * 96 + [0.26] * 4))
    few, many = (objective_of(Slo("latency", 250.0, 0.2, "share", share)) for share in (0.95, 0.98))
    assert few.bound(None) == 250.0
    assert few.judge(latency, None, None).status is SloStatus.MET
    verdict = many.judge(latency, None, None)
    assert verdict.status is SloStatus.VIOLATED
    assert "latency of 98 % of the items is 260 ms, above the objective of 250 ms" in verdict.reason


def test_any_quantile_of_what_was_measured_is_known() -> None:
    latencies = np.random.default_rng(0).lognormal(-2, 0.5, 5000)
    stats = latency_stats(latencies)
    for share in (0.5, 0.8, 0.9, 0.97, 0.99):
        assert stats.at(share) == pytest.approx(float(np.quantile(latencies, share)), rel=0.02)
        assert stats.within(stats.at(share)) == pytest.approx(share, abs=0.002)
    assert stats.within(0.0) == 0.0
    assert stats.at(None) == stats.mean_s
