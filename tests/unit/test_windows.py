"""Rates and windows: right for slow streams, absent before enough is known, zero when the stream has stopped."""

from collections.abc import Iterable
from itertools import pairwise

import numpy as np
import pytest

from profiler.snapshot import RateWindow
from profiler.stats import Samples, slope_per_s
from profiler.windows import input_rate_change, mean_of_steps, offered_windows, rate_per_s


def events(rows: Iterable[tuple[float, ...]]) -> Samples:
    samples = Samples(10_000)
    for row in rows:
        samples.add(*row)
    return samples


def rate(times_s: Iterable[float], now_s: float, *, window_s: float = 10.0, since_s: float = 0.0) -> float | None:
    return rate_per_s(events((at_s,) for at_s in times_s), now_s, window_s=window_s, since_s=since_s)


def test_a_whole_window_without_any_event_is_zero() -> None:
    assert rate([], 9.9) is None
    assert rate([], 10.0) == 0.0


def test_a_stopped_stream_falls_to_zero_without_a_jump() -> None:
    times_s = [i / 3 for i in range(31)]
    seen = [rate(times_s, 10.0 + silent_s) for silent_s in (0.2, 1.0, 3.0, 6.0, 9.9, 10.1)]
    assert seen[0] == pytest.approx(3.0)
    assert all(later < earlier for earlier, later in pairwise(seen))
    assert seen[-2] < 0.5
    assert seen[-1] == 0.0


def test_a_slow_stream_is_not_taken_as_stopped() -> None:
    found = [rate([0.0, 20.0, 40.0, 60.0], now_s) for now_s in (79.0, 120.0, 141.0)]
    assert found[0] == pytest.approx(0.05)
    assert found[0] > found[1] > found[2] == 0.0


def test_items_let_go_together_do_not_inflate_the_rate() -> None:
    clumps = [float(second) for second in range(5) for _ in range(4)]
    assert [rate(clumps, 4.5, window_s=window_s) for window_s in (10.0, 0.25)] == pytest.approx([4.0, 4.0])


def test_offered_rate_before_it_was_set_is_left_out() -> None:
    offered = events([(5.0, 8.0)])
    assert mean_of_steps(offered, 0.0, 4.0) is None
    assert mean_of_steps(offered, 0.0, 10.0) == pytest.approx(8.0)
    assert mean_of_steps(offered, 10.0, 10.0) == pytest.approx(8.0)
    assert offered_windows(offered, (4.0, 5.0, 6.0)) == ()
    assert offered_windows(offered, (5.0, 6.0, 7.0)) == (RateWindow(8.0, 1.0), RateWindow(8.0, 1.0))


def windows(*rates: float, counted: bool = False) -> tuple[RateWindow, ...]:
    return tuple(RateWindow(per_s, 1.0, counted) for per_s in rates)


@pytest.mark.parametrize(
    ("before", "rates", "expected"),
    [
        *[(10.0, (12.1, 12.5), 12.5), (10.0, (7.9, 7.0), 7.0), (0.0, (3.0, 3.0), 3.0), (3.0, (0.0, 0.0), 0.0)],
        *[(10.0, (12.0, 12.0), None), (10.0, (10.0, 15.0), None), (10.0, (15.0, 5.0), None)],
    ],
)
def test_a_rate_changed_if_both_windows_say_so(before: float, rates: tuple[float, ...], expected: float | None) -> None:
    assert input_rate_change(before, windows(*rates)) == expected


def test_the_scatter_of_counted_random_arrivals_is_no_change() -> None:
    rng = np.random.default_rng(3)
    pairs = rng.poisson(10.0, size=(4000, 2))
    alarms = sum(input_rate_change(10.0, windows(*pair, counted=True)) is not None for pair in pairs.tolist())
    uncounted = sum(input_rate_change(10.0, windows(*pair)) is not None for pair in pairs.tolist())
    assert alarms <= 4
    assert uncounted > 200
    assert input_rate_change(10.0, windows(20.0, 21.0, counted=True)) == 21.0


def test_growth_is_the_least_squares_slope() -> None:
    times_s = np.array([100.0, 100.5, 101.0, 102.0])
    values = 7 + 3 * times_s + np.array([0.4, -0.3, 0.2, -0.1])
    expected = np.polyfit(times_s - 100, values, 1)[0]
    assert slope_per_s(times_s, values, min_span_s=1.0) == pytest.approx(expected)


def test_samples_of_a_slow_stream_do_not_pile_up_to_the_bound_of_a_fast_one() -> None:
    samples = Samples(32_768, keep_s=20.0)
    most = 0
    for i in range(100_000):
        samples.add(i / 100)  # 100/s: 2,000 rows in twenty seconds
        most = max(most, len(samples))
    assert most <= 4_100
    assert samples.at(0) <= samples.at(-1) - 20.0
    for i in range(100_000):
        samples.add(1000 + i / 10_000)
        most = max(most, len(samples))
    assert 32_768 <= most <= 65_536
