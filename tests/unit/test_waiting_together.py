"""How many items tell as much as one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from compositions.model import Composition, Group, Pattern
from control.reading import MOST_TOGETHER, items_together
from profiler.snapshot import InputNow, RateWindow, Snapshot, StageProfile

WINDOWS = (RateWindow(8.0, 1.0, counted=True), RateWindow(8.0, 1.0, counted=True))


def shot(rate_per_s: float, cv: float = 1.0) -> Snapshot:
    """One stage of 100 ms that waits for something other than a core."""
    stage = StageProfile("a", 0.1, 0.001, cv, 0.1, 0.3, 100)
    return Snapshot(
        10.0, "1", False, 0.0, 0.0, rate_per_s, rate_per_s, 80, None, None, 0, 0.0, 1, (stage,), 4, 1, 0.0,
        InputNow(WINDOWS),
    )  # fmt: skip


def replicas(count: int) -> Composition:
    return Composition(str(count), (Group(("a",), Pattern.PAR, count),))


@pytest.mark.parametrize(("rate_per_s", "exact"), [(5.0, 6.0), (8.0, 72.0)])
def test_a_queue_is_as_long_in_telling_as_theory_has_it(rate_per_s: float, exact: float) -> None:
    """One server, everything exponential: 2 ρ (1 + ρ) / (1 - ρ)² items (the sum of all correlations of its length)."""
    assert items_together(shot(rate_per_s), replicas(1), None) == pytest.approx(exact, rel=0.2)


def test_the_fuller_the_more_and_who_seldom_waits_tells_of_himself() -> None:
    told = [items_together(shot(rate), replicas(4), None) for rate in (1.0, 10.0, 20.0, 30.0, 39.0, 80.0)]
    assert told == sorted(told)
    assert told[0] == pytest.approx(1.0, abs=0.01)
    assert told[-1] == MOST_TOGETHER, "overloaded"
    assert items_together(shot(30.0, cv=0.0), replicas(4), None) < told[3], "regular work"


def test_where_replicas_overtake_a_slow_one_holds_back_what_comes_within_the_bound() -> None:
    seldom = shot(8.0)
    assert items_together(seldom, replicas(8), 0.5) == pytest.approx(1 + 8.0 * 0.5)
    assert items_together(seldom, replicas(1), 0.5) == items_together(seldom, replicas(1), None)


def test_a_source_that_keeps_its_pace_makes_shorter_queues() -> None:
    paced = replace(shot(8.0, cv=0.3), input=InputNow((RateWindow(8.0, 1.0), RateWindow(8.0, 1.0))))
    assert items_together(paced, replicas(1), None) < 0.2 * items_together(shot(8.0, cv=0.3), replicas(1), None)


def test_nothing_is_known_without_a_rate_or_a_profile() -> None:
    assert items_together(replace(shot(8.0), input_rate_per_s=None), replicas(1), 0.5) == 1.0
    assert items_together(replace(shot(8.0), stages=()), replicas(1), 0.5) == 1.0


def test_nobody_waits_for_what_takes_no_time() -> None:
    one = shot(8.0)
    at_once = replace(one.stages[0], service_time_s=0.0, cpu_time_s=0.0)
    assert items_together(replace(one, stages=(at_once,), hop_s=0.0), replicas(2), 0.5) == 1.0
