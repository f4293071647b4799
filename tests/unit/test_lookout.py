"""What the load is about to ask for: more at once, less when it has lasted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from control.decisions import Trigger
from control.forecast.load.arrivals import Announced
from control.load_anticipation import LoadAnticipation
from profiler.snapshot import Announcement, Demand, InputNow, Snapshot


def shot(now_s: float, rate: float, behind: int = 0) -> Snapshot:
    demand = Demand(behind, 0, 0, 0.0) if behind else None
    return Snapshot(
        now_s, "1", False, 0.0, now_s - 10, rate, rate, 100, None, None, 0, 0.0, 1, (), 4, 1, 3e-4, InputNow((), rate),
        demand=demand,
    )  # fmt: skip


def after(*course: tuple[float, float]) -> tuple[LoadAnticipation, Snapshot]:
    """At these rates, each for so many seconds."""
    anticipation, now_s, seen = LoadAnticipation(1.5, 10.0), 0.0, shot(0.0, course[0][1])
    for lasts_s, rate in course:
        for _ in range(int(lasts_s * 4)):
            seen = anticipation.seen(shot(now_s, rate), 0.25)
            now_s += 0.25
    return anticipation, seen


def upper(snapshot: Snapshot) -> float:
    assert snapshot.outlook is not None
    return snapshot.outlook.upper_per_s


def test_where_nobody_counts_nothing_is_expected() -> None:
    unknown = Snapshot(0.0, "1", False, 0.0, 0.0, None, None, 0, None, None, 0, None, 0, (), 4, 1, 3e-4)
    assert LoadAnticipation(1.5, 10.0).seen(unknown, 0.25) is unknown


def test_more_is_asked_for_in_the_turn_in_which_it_is_needed() -> None:
    anticipation, seen = after((30, 10.0), (0.25, 40.0))
    due = anticipation.due(seen, enough=False)
    assert due is not None
    assert (due.trigger, due.rising) == (Trigger.INPUT_RATE, True)
    assert "40" in due.reason


def test_a_load_that_rests_is_left_to_what_is_measured() -> None:
    anticipation, seen = after((60, 10.0))
    assert anticipation.due(seen, enough=True) is None
    assert anticipation.due(seen, enough=False) is None, "it was enough for this load before"


def test_what_was_needed_a_moment_ago_is_not_given_back() -> None:
    _, seen = after((30, 40.0), (3, 10.0))
    anticipation, seen = after((30, 40.0), (3, 10.0))
    assert upper(seen) == pytest.approx(10.0)
    assert upper(anticipation.held(seen)) >= 40.0
    anticipation, seen = after((30, 40.0), (5, 10.0))
    assert upper(anticipation.held(seen)) < 20.0


def test_what_waits_is_caught_up_with() -> None:
    anticipation, _ = after((30, 10.0), (0.5, 20.0))
    assert upper(anticipation.seen(shot(30.5, 20.0, behind=40), 0.25)) > 60.0


def test_a_backlog_is_no_rate_of_items_that_come() -> None:
    """Of 300 items/s and 2,100 that wait nobody should read "up to 4,570 items/s"."""
    anticipation, _ = after((30, 15.0), (0.5, 300.0))
    seen = anticipation.seen(shot(30.5, 300.0, behind=2100), 0.25)
    due = anticipation.due(seen, enough=False)
    assert due is not None
    assert upper(seen) > 2000.0
    assert due.reason.endswith("means up to 300 items/s, and 2,100 items wait to be caught up with")


def test_a_load_that_rests_is_no_more_because_something_waits_by_chance() -> None:
    anticipation, _ = after((60, 10.0))
    assert upper(anticipation.seen(shot(60.0, 10.0, behind=4), 0.25)) == pytest.approx(10.0)
    assert upper(anticipation.seen(shot(60.25, 10.0, behind=40), 0.25)) == pytest.approx(10.0)


def test_what_has_gathered_at_the_start_is_caught_up_with_for_a_while() -> None:
    anticipation = LoadAnticipation(1.5, 10.0)
    needs = [upper(anticipation.seen(shot(turn / 4, 10.0, behind=40), 0.25)) for turn in range(160)]
    assert needs[8] > 50.0
    assert needs[-1] == pytest.approx(10.0), "it does not go, so it is not a matter of catching up"
    assert upper(LoadAnticipation(1.5, 10.0).seen(shot(0.0, 10.0, behind=40), None)) == pytest.approx(10.0), (
        "nobody is late"
    )


def test_what_was_announced_is_expected_before_it_comes_and_until_it_is_over() -> None:
    anticipation, _ = after((60, 10.0))
    anticipation.announce([Announcement(100.0, 110.0, 70.0)])
    needs = {at_s: upper(anticipation.seen(shot(at_s, 10.0), 0.25)) for at_s in (97.5, 98.5, 105.0, 110.0)}
    assert needs == pytest.approx({97.5: 10.0, 98.5: 70.0, 105.0: 70.0, 110.0: 10.0})


def test_of_what_was_announced_the_most_counts_and_what_is_announced_anew_is_all_that_counts() -> None:
    announced = Announced()
    announced.set([Announcement(0.0, 200.0, 90.0)])
    announced.set([Announcement(100.0, 110.0, 30.0), Announcement(105.0, 120.0, 40.0)])
    assert [announced.within(at_s, 0.0) for at_s in (99.0, 101.0, 106.0, 115.0, 120.0)] == [
        None,
        30.0,
        40.0,
        40.0,
        None,
    ]


def test_of_counted_arrivals_one_is_left_for_what_is_sure_and_the_error_is_told() -> None:
    anticipation, draw, arrived, seen = LoadAnticipation(1.5, 10.0), np.random.default_rng(0), 1, shot(0.0, 10.0)
    for turn in range(1, 65):
        arrived += int(draw.poisson(2.5))
        seen = anticipation.seen(replace(shot(turn / 4, 10.0), input=InputNow((), None, arrived)), 0.25)
    expected, error = arrived / 16, arrived**0.5 / 16
    assert upper(anticipation.asked(seen)) == pytest.approx(expected - 1.5 * error, rel=0.05)
    assert seen.outlook is not None
    assert seen.outlook.error_per_s == pytest.approx(error, rel=0.05)


def test_of_a_set_rate_there_is_no_doubt() -> None:
    anticipation, seen = after((60, 10.0))
    assert upper(anticipation.asked(seen)) == upper(seen) == 10.0
    assert seen.outlook is not None
    assert seen.outlook.error_per_s == 0.0
