"""Patterns at the points where the paper's description fixes them (Garcia et al. 2023, section 3.3)."""

import math

import pytest

from apps.rates import Binary, Custom, Decreasing, Fixed, Increasing, Spike, Trace, Wave
from compositions.errors import RecomposeError
from datapipe.sources.rate_spec import RateSpec, from_spec, read_arrivals

RANGE = {"period_s": 60.0, "min_per_s": 2.0, "max_per_s": 12.0}


@pytest.mark.parametrize(
    ("pattern", "points"),
    [
        (Fixed(5.0), {0: 5, 1e6: 5}),
        (Wave(**RANGE), {0: 7, 15: 12, 30: 7, 45: 2, 60: 7, 75: 12}),
        (Binary(**RANGE), {0: 2, 29.9: 2, 30: 12, 59.9: 12, 60: 2, 90: 12}),
        (Increasing(**RANGE), {0: 2, 30: 7, 60: 12, 1000: 12}),
        (Decreasing(**RANGE), {0: 12, 30: 7, 60: 2, 1000: 2}),
        (Spike(**RANGE), {0: 2, 53.9: 2, 57: 7, 59.994: 11.99, 60: 2, 117: 7}),
        (Spike(**RANGE, size_percent=100), {30: 7}),
        (Custom(lambda elapsed_s: elapsed_s + 10), {0: 10, 2.5: 12.5}),
    ],
)
def test_pattern_passes_through_the_points_of_the_paper(pattern, points):
    assert {t: pattern(t) for t in points} == pytest.approx(points)


def test_trace_scaled_to_a_busiest_rate():
    trace = Trace((0.0, 1.0, 1.1, 1.2, 10.0), period_s=60.0, max_per_s=12.0)
    assert max(trace(t) for t in range(60)) == 12.0


@pytest.mark.parametrize(
    ("spec", "pattern"),
    [
        ({}, None),
        ({"rate_per_s": 10}, Fixed(10)),
        ({"pattern": "wave", **RANGE}, Wave(**RANGE)),
        ({"pattern": "spike", **RANGE, "size_percent": 20.0}, Spike(**RANGE, size_percent=20.0)),
    ],
)
def test_from_spec(spec, pattern):
    assert from_spec(RateSpec(**spec)) == pattern


def test_from_spec_reads_a_trace_file(tmp_path):
    file = tmp_path / "trace.txt"
    file.write_text("# arrivals\n3.0\n\n1\n2\n")
    assert from_spec(RateSpec(pattern="trace", path=str(file), period_s=6)) == Trace((1.0, 2.0, 3.0), 6)


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"rate_per_s": 0}, "rate_per_s = 0: must be above 0 and finite"),
        ({"rate_per_s": 1, "pattern": "wave"}, "both rate_per_s = 1 and pattern = 'wave'"),
        ({"max_per_s": 5}, "an input without a pattern takes no max_per_s"),
        ({"pattern": "wavy"}, "unknown input pattern 'wavy'; known patterns are wave, binary"),
        ({"pattern": "wave", "period_s": 5}, "'wave' needs min_per_s, max_per_s as well"),
        ({"pattern": "wave", **RANGE, "min_per_s": 12.0}, "min_per_s = 12, max_per_s = 12: must be 0 <= min_per_s <"),
        ({"pattern": "wave", **RANGE, "period_s": -1}, "period_s = -1: must be above 0"),
        ({"pattern": "spike", **RANGE, "size_percent": 101}, "size_percent = 101: must be above 0 and at most 100"),
        ({"pattern": "trace", "period_s": 5, "path": "/no/such"}, "'/no/such' cannot be read: No such file"),
    ],
)
def test_from_spec_refuses_with_a_sentence(spec, sentence):
    with pytest.raises(RecomposeError, match=sentence):
        from_spec(RateSpec(**spec))


@pytest.mark.parametrize("returned", [-1.0, math.nan, math.inf, "5", None])
def test_custom_pattern_must_return_a_rate(returned):
    with pytest.raises(RecomposeError, match=r"the custom pattern returned .* at 3 s"):
        Custom(lambda _: returned)(3.0)


def test_access_log_times_honour_zone_and_month(tmp_path):
    file = tmp_path / "access.log"
    file.write_text(
        '1.2.3.4 - - [17/May/2015:10:05:47 +0000] "GET / HTTP/1.1" 200 1\n'
        '1.2.3.4 - - [17/May/2015:12:05:03 +0200] "GET / HTTP/1.1" 200 1\n'
        '1.2.3.4 - - [17/May/2015:04:35:07 -0530] "GET / HTTP/1.1" 200 1\n'
    )
    assert read_arrivals(file) == (1431857103.0, 1431857107.0, 1431857147.0)


@pytest.mark.parametrize("line", ["abc", "nan", "[31/Feb/2015:10:05:47 +0000]", "[17/Mai/2015:10:05:47 +0000]"])
def test_trace_line_that_is_neither_form_is_named(tmp_path, line):
    file = tmp_path / "trace.txt"
    file.write_text(f"1.5\n{line}\n")
    with pytest.raises(RecomposeError, match=r"line 2 of trace .*trace\.txt' is .*; must be a time in seconds"):
        read_arrivals(file)


def test_trace_needs_a_length():
    with pytest.raises(RecomposeError, match="arrivals at two different times"):
        Trace((3.0, 3.0), period_s=5.0)
