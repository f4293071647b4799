"""The present rate of counted arrivals by filters of several memories, and which of them is believed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.forecast.load.looking_ahead import LookingAhead
from control.forecast.load.predictors import MEMORIES_S, Following

TURN_S = 0.25
MEANS = len(MEMORIES_S)


def followed(rate: Callable[[float], float], duration_s: float) -> Following:
    """Without noise."""
    following = Following(10)
    for turn in range(1, int(duration_s / TURN_S) + 1):
        following.count(TURN_S, rate(turn * TURN_S))
    return following


def watched(rate: Callable[[float], float], duration_s: float, seed: int) -> tuple[LookingAhead, list[float]]:
    """Independent users, and how far off the present rate was after the first twenty seconds."""
    draw, arrived, ahead, off = np.random.default_rng(seed), 0, LookingAhead(), []
    for turn in range(int(duration_s / TURN_S) + 1):
        now_s = turn * TURN_S
        ahead.observe(now_s, None, arrived)
        ahead.within(0.5)
        arrived += int(draw.poisson(rate(now_s + TURN_S / 2) * TURN_S))
        if now_s >= 20:
            off.append(ahead.level_per_s - rate(now_s))
    return ahead, off


@given(level=st.floats(1, 100), slope=st.floats(0, 2))
def test_lines_follow_a_line_and_means_lag_by_their_memory(level: float, slope: float) -> None:
    ahead = followed(lambda at_s: level + slope * at_s, 120.0).ahead(2.0)
    assert ahead[MEANS:] == pytest.approx(level + slope * 122.0, rel=0.01)
    assert (ahead[:MEANS] <= level + slope * 120.0 + 1e-6).all()
    assert (np.diff(ahead[:MEANS]) <= 1e-6).all(), "the longer the memory, the later"


def test_a_jump_is_taken_over_by_who_has_not_seen_it_come() -> None:
    following = followed(lambda _: 10.0, 60.0)
    following.changed(40.0, 3.0, 2)
    assert following.ahead(2.0) == pytest.approx(40.0)


def test_who_has_seen_a_change_come_keeps_the_slope() -> None:
    following = followed(lambda at_s: 10.0 + at_s, 60.0)
    following.changed(69.0, 3.0, 4)
    seen = following.ahead(2.0)[MEANS : MEANS + 4]
    assert seen == pytest.approx(72.0, rel=0.02)


def test_nothing_is_expected_below_none() -> None:
    assert (followed(lambda at_s: max(0.0, 20.0 - at_s), 18.0).ahead(30.0) >= 0).all()


@pytest.mark.parametrize("rate", [3.0, 30.0])
def test_noise_moves_nobody(rate: float) -> None:
    assert not any(watched(lambda _: rate, 120.0, seed)[0].moving for seed in range(3))


def test_a_drift_among_noise_is_followed() -> None:
    """From 4 to 30 items/s within two minutes: a level that waits for a change to be certain is off by 3.6 items/s."""
    off = [watched(lambda at_s: 4.0 + 26.0 * at_s / 120.0, 120.0, seed)[1] for seed in range(4)]
    assert np.sqrt(np.mean(np.square(off))) < 3.0
