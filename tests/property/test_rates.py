"""Laws that every pattern obeys."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.rates import Binary, Decreasing, Increasing, Spike, Trace, Wave

seconds = st.floats(0, 1e5)


def mean_per_s(pattern, steps=1000):
    """Over one period, from the middle of each step."""
    return sum(pattern((k + 0.5) / steps * pattern.period_s) for k in range(steps)) / steps


@st.composite
def ranged(draw, kinds=(Wave, Binary, Increasing, Decreasing, Spike)):
    low, span = draw(st.floats(0, 1e3)), draw(st.floats(0.01, 1e3))
    return draw(st.sampled_from(kinds))(draw(st.floats(0.1, 1e4)), low, low + span)


@given(ranged(), seconds)
def test_rate_stays_in_its_range(pattern, elapsed_s):
    slack = 1e-9 * pattern.max_per_s
    assert pattern.min_per_s - slack <= pattern(elapsed_s) <= pattern.max_per_s + slack


@given(ranged(kinds=(Wave, Binary, Spike)), st.floats(0, 1), st.integers(0, 5))
def test_cyclic_patterns_repeat(pattern, part, cycle):
    # Away from the jumps, where rounding decides on which side the time falls.
    part = 0.01 + 0.48 * part
    first, later = pattern(part * pattern.period_s), pattern((part + cycle) * pattern.period_s)
    assert later == pytest.approx(first, rel=1e-6, abs=1e-6 * pattern.max_per_s)


@given(st.floats(0.1, 1e4), st.floats(0, 100), st.floats(0.1, 100), seconds)
def test_decreasing_mirrors_increasing(period_s, low, span, elapsed_s):
    rising, falling = Increasing(period_s, low, low + span), Decreasing(period_s, low, low + span)
    assert rising(elapsed_s) + falling(elapsed_s) == pytest.approx(2 * low + span)


@given(ranged(kinds=(Wave, Binary)))
def test_mean_over_a_period_is_the_middle_of_the_range(pattern):
    assert mean_per_s(pattern) == pytest.approx((pattern.min_per_s + pattern.max_per_s) / 2)


@given(ranged(kinds=(Spike,)))
def test_spike_brings_half_its_height_for_its_length(pattern):
    assert mean_per_s(pattern) == pytest.approx(pattern.min_per_s + 0.05 * pattern.span_per_s)


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=200), st.floats(1, 1e4))
def test_trace_brings_as_many_items_a_period_as_were_recorded(arrivals_s, period_s):
    if max(arrivals_s) - min(arrivals_s) < 1e-3:
        arrivals_s = [*arrivals_s, max(arrivals_s) + 1.0]
    trace = Trace(tuple(arrivals_s), period_s)
    assert mean_per_s(trace) * period_s == pytest.approx(len(arrivals_s))
