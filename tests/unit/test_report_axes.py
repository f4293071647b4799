"""Plots over time of a report: one instant at one place, and the time of day below it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from datapipe.report.plots import course

BEGAN = datetime(2026, 3, 1, 9, 59, 58, tzinfo=UTC)


@pytest.mark.parametrize(
    ("length_s", "ticks"),
    [
        (9.0, ["09:59:58", "10:00:00", "10:00:02", "10:00:04", "10:00:06"]),
        (400.0, ["10:00", "10:01", "10:02", "10:03", "10:04", "10:05", "10:06"]),
        (3 * 3600.0, ["10:00", "10:30", "11:00", "11:30", "12:00", "12:30"]),
    ],
)
def test_axes_tell_the_clock_at_round_times(length_s: float, ticks: list[str]) -> None:
    _, axes = course(BEGAN, length_s)
    assert [label.get_text() for label in axes.get_xticklabels()] == ticks
    assert axes.get_xlim() == (0, length_s)


def test_axes_of_all_heights_are_aligned() -> None:
    places = [course(BEGAN, 60.0, height)[1].get_position() for height in (0.95, 2.0, 2.8)]
    assert len({(place.x0, place.x1) for place in places}) == 1
