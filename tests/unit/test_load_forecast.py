"""What is expected of the input rate: the present rate, trend, season, and how long a fall must last."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from control.forecast.load.arrivals import BIN_S, FOLLOWED_S, KEPT, Bins, Falls, cost_s
from control.forecast.load.looking_ahead import LookingAhead
from control.forecast.load.predictors import Level, dispersion_of, season_of

TURN_S = 0.25


def counted(rate: Callable[[float], float], duration_s: float, seed: int = 0) -> list[tuple[float, int]]:
    """Arrivals of independent users since the start, a turn each."""
    draw, arrived, turns = np.random.default_rng(seed), 0, [(0.0, 0)]
    for turn in range(1, int(duration_s / TURN_S) + 1):
        arrived += int(draw.poisson(rate((turn - 0.5) * TURN_S) * TURN_S))
        turns.append((turn * TURN_S, arrived))
    return turns


def level_after(turns: list[tuple[float, int]]) -> Level:
    level = Level()
    for now_s, arrived in turns:
        level.count(now_s, arrived, 1.0, moving=False)
    return level


def watched(rate: Callable[[float], float], duration_s: float) -> LookingAhead:
    """A source that is set to ``rate``."""
    ahead = LookingAhead()
    for turn in range(int(duration_s / TURN_S) + 1):
        ahead.observe(turn * TURN_S, rate(turn * TURN_S), 0)
    return ahead


def crowds(at_s: float) -> float:
    return 70.0 if at_s % 60 >= 48 else 8.0


@pytest.mark.parametrize("rate", [2.0, 10.0, 60.0])
def test_ten_minutes_of_noise_are_no_news(rate: float) -> None:
    levels = [level_after(counted(lambda _: rate, 600, seed)) for seed in range(10)]
    assert sum(level.changed_s > 0 for level in levels) <= 1
    assert np.mean([level.rate_per_s for level in levels]) == pytest.approx(rate, rel=0.05)
    assert all(level.error_per_s < 0.1 * rate for level in levels if level.changed_s < 0)


def test_a_filter_is_not_believed_for_one_lucky_second() -> None:
    def moves(seed: int) -> bool:
        ahead, moved = LookingAhead(), False
        for now_s, arrived in counted(lambda _: 10.0, 60, seed):
            ahead.observe(now_s, None, arrived)
            ahead.within(0.5)
            moved = moved or ahead.moving
        return moved

    assert sum(moves(seed) for seed in range(40)) <= 2, "one in six, where one look is enough"


def test_a_crowd_is_seen_in_two_turns_and_its_end_in_three() -> None:
    turns = counted(lambda at_s: 70.0 if 60 <= at_s < 80 else 8.0, 100)
    level = Level()
    seen = {}
    for now_s, arrived in turns:
        level.count(now_s, arrived, 1.0, moving=False)
        seen[now_s] = level.rate_per_s
    assert seen[60.0] < 12 < 40 < seen[60.5]
    assert seen[80.0] > 60
    assert seen[80.75] < 20


def test_a_small_change_shows_when_it_has_lasted() -> None:
    level = level_after(counted(lambda at_s: 30.0 if at_s < 60 else 40.0, 90))
    assert 60 < level.changed_s < 85
    assert level.rate_per_s == pytest.approx(40, rel=0.15)


def test_a_rate_that_is_set_is_known_exactly() -> None:
    level = Level()
    for turn, rate in enumerate((10.0, 10.0, 25.0)):
        level.set(turn * TURN_S, rate)
    assert (level.rate_per_s, level.error_per_s, level.changed_s) == (25.0, 0.0, 0.5)


def test_users_who_come_in_crowds_scatter_more() -> None:
    draw = np.random.default_rng(0)
    alone = draw.poisson(20 * BIN_S, 200) / BIN_S
    in_fives = 5 * draw.poisson(4 * BIN_S, 200) / BIN_S
    assert dispersion_of(alone, BIN_S) < 2 < dispersion_of(in_fives, BIN_S)


@pytest.mark.parametrize("period_s", [30.0, 60.0, 120.0])
def test_a_season_is_found_when_it_was_seen_twice(period_s: float) -> None:
    times = np.arange(0, 2.2 * period_s, BIN_S)
    assert season_of(39 + 31 * np.sin(2 * np.pi * times / period_s)) == pytest.approx(period_s / BIN_S, abs=1)


def test_what_does_not_repeat_has_no_season() -> None:
    draw = np.random.default_rng(3)
    assert season_of(np.full(400, 20.0)) is None
    assert season_of(np.repeat(draw.uniform(8, 70, 40), 10)) is None


def test_a_crowd_that_comes_every_minute_is_expected_before_it_comes() -> None:
    ahead = watched(crowds, 167.75)
    expected, _, by = ahead.within(0.5)
    assert (expected, by) == (70.0, "the season")
    assert watched(crowds, 150.0).within(0.5)[0] == 8.0


def test_a_season_that_ends_is_not_believed_against_what_is_seen() -> None:
    ahead = watched(lambda at_s: crowds(at_s) if at_s < 185 else 50.0, 190.0)
    assert ahead.within(0.5)[1] >= 50.0


def test_a_ramp_is_expected_to_go_on() -> None:
    expected, upper, by = watched(lambda at_s: 10 + at_s, 60.0).within(2.0)
    assert by == "the trend"
    assert expected == pytest.approx(72, abs=0.6)
    assert upper >= expected


def test_a_rate_that_rests_is_expected_to_rest() -> None:
    ahead = watched(lambda _: 20.0, 60.0)
    assert ahead.within(0.5) == (20.0, 20.0, "the present rate")
    assert not ahead.moving


def test_a_past_that_is_told_is_known_from_the_start() -> None:
    ahead = LookingAhead()
    ahead.warm(np.array([crowds(at_s) for at_s in np.arange(0, 180, BIN_S)]))
    for turn in range(int(47.75 / TURN_S) + 1):
        ahead.observe(turn * TURN_S, crowds(turn * TURN_S), 0)
    assert ahead.within(0.5)[0] == 70.0


def test_bins_forget_what_is_older_than_they_keep() -> None:
    bins = Bins()
    for at in range(3 * KEPT):
        bins.add(float(at))
    assert KEPT <= len(bins) <= 2 * KEPT
    assert bins.rates[-1] == 3 * KEPT - 1
    assert bins.total == 3 * KEPT


def falls_of(course: Callable[[float], float], duration_s: float) -> Falls:
    falls = Falls(10.0)
    for turn in range(int(duration_s / TURN_S)):
        falls.note(turn * TURN_S, course(turn * TURN_S))
    return falls


def test_long_falls_are_followed_at_once_and_short_dips_are_not() -> None:
    assert falls_of(lambda at_s: 70.0 if at_s % 60 < 12 else 8.0, 50).hold_s == 10.0, "nothing is known yet"
    assert falls_of(lambda at_s: 70.0 if at_s % 60 < 12 else 8.0, 200).hold_s == 0.5
    assert falls_of(lambda at_s: 30.0 if at_s % 15 < 12 else 8.0, 200).hold_s >= 3.0


def test_a_hold_costs_what_it_keeps_and_what_it_lets_go_too_soon() -> None:
    assert cost_s(2.0, [1.0]) == 1.0
    assert cost_s(2.0, [10.0]) == 6.0
    assert cost_s(2.0, [math.inf]) == 2.0


def test_a_load_that_falls_slowly_waits_once_and_not_for_each_step() -> None:
    falls = Falls(4.0)
    held_s = {}
    for turn in range(80):
        now_s = turn / 4
        falls.note(now_s, 70.0 - 3.0 * now_s)
        held_s[now_s] = falls.holds_s(now_s)
    began_s = 2.5  # it takes so long until less than nine tenths are needed
    assert all(held == (4.0 if now_s < began_s + 4.0 else FOLLOWED_S) for now_s, held in held_s.items())


def test_the_next_fall_waits_again() -> None:
    falls = Falls(4.0)
    for now_s, need in ((0.0, 70.0), (10.0, 20.0), (15.0, 20.0)):
        falls.note(now_s, need)
    assert falls.holds_s(15.0) == FOLLOWED_S
    falls.note(20.0, 70.0)
    falls.note(21.0, 20.0)
    assert falls.holds_s(21.0) == falls.hold_s
