"""A miss counts when it is more than chance."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from compositions.model import Composition, Group
from control.objectives import objective_of
from control.watch import CERTAIN, Evidence
from profiler.slo import Slo
from profiler.snapshot import InputNow, RateOutlook, RateWindow, Snapshot, StageProfile
from profiler.stats import latency_stats

SHARE = objective_of(Slo("latency", 250.0, statistic="share", share=0.95))
MEAN = objective_of(Slo("latency", 250.0, threshold=0.0))
STILL = Snapshot(0.0, "3", False, 0.0, -10.0, 8.0, 8.0, 80, None, None, 0, 0.0, 1, (), 4, 3, 3e-4)
MOVING = InputNow(outlook=RateOutlook(8.0, 8.0, 8.0, moving=True, by="the present rate"))


def errors(late: float, windows: int, objective: object = SHARE, seed: int = 0, items: int = 80) -> list[float]:
    """What is said at the end of each of so many windows in which items are late with this probability."""
    draw, evidence, told = np.random.default_rng(seed), Evidence(), []
    for window in range(1, windows + 1):
        latency = latency_stats(np.where(draw.random(items) < late, 0.35, draw.uniform(0.1, 0.2, items)))
        seen = replace(STILL, now_s=10.0 * window, window_start_s=10.0 * (window - 1), latency=latency)
        told.append(evidence.errors(objective, seen) or 0.0)  # type: ignore[arg-type]
    return told


def test_chance_is_no_miss() -> None:
    runs = [errors(0.045, 30, seed=seed) for seed in range(20)]
    assert sum(max(run) > CERTAIN for run in runs) <= 1


def test_a_window_may_look_like_a_miss_by_chance() -> None:
    late = [run for seed in range(20) for run in errors(0.045, 30, seed=seed) if run > 0]
    assert late, "else the test before would show nothing"


@pytest.mark.parametrize(("late", "windows"), [(0.5, 1), (0.2, 4), (0.12, 20)])
def test_a_miss_shows_the_sooner_the_larger_it_is(late: float, windows: int) -> None:
    found = [max(errors(late, windows, seed=seed)) > CERTAIN for seed in range(20)]
    assert sum(found) >= 18


def test_a_mean_that_is_beyond_its_bound_shows_too() -> None:
    assert max(errors(1.0, 1, MEAN)) > CERTAIN
    assert max(errors(0.2, 5, MEAN)) < 0


def test_another_composition_or_a_load_that_moves_begins_anew() -> None:
    evidence, latency = Evidence(), latency_stats(np.full(80, 0.35))
    bad = replace(STILL, now_s=10.0, window_start_s=0.0, latency=latency)
    good = replace(bad, now_s=20.0, window_start_s=10.0, latency=latency_stats(np.full(80, 0.1)))
    assert (evidence.errors(SHARE, bad) or 0.0) > CERTAIN
    assert (evidence.errors(SHARE, good) or 0.0) > CERTAIN, "both windows together"
    assert (evidence.errors(SHARE, replace(good, input=MOVING)) or 0.0) < 0
    assert (evidence.errors(SHARE, replace(good, now_s=30.0, window_start_s=20.0, composition="4")) or 0.0) < 0


QUEUE = Composition("3", (Group(("a",)),))
USERS = InputNow((RateWindow(8.0, 1.0, counted=True), RateWindow(8.0, 1.0, counted=True)))


def bunches(late: int, active: Composition | None, windows: int = 1, work_s: float = 0.09) -> tuple[float, float]:
    """What is said at the end, and what would be certain. In each window of 80 items so many are late, one after the
    other; one worker is busy for 0.72 of the time."""
    evidence, told = Evidence(), 0.0
    stage = StageProfile("a", work_s, work_s, 0.6, work_s, work_s, 80)
    latency = latency_stats(np.where(np.arange(80) < late, 0.35, 0.15))
    for window in range(1, windows + 1):
        seen = replace(
            STILL,
            now_s=10.0 * window,
            window_start_s=10.0 * (window - 1),
            latency=latency,
            stages=(stage,),
            input=USERS,
        )
        told = evidence.errors(SHARE, seen, active) or 0.0
    return told, evidence.certain


def test_one_bunch_of_late_items_in_a_queue_is_chance() -> None:
    told, certain = bunches(24, None)
    assert told > certain, "as if four waited together"
    told, certain = bunches(24, QUEUE)
    assert told < certain


@pytest.mark.parametrize(("late", "windows", "work_s"), [(80, 2, 0.09), (80, 4, 0.2), (24, 16, 0.09)])
def test_a_miss_in_a_queue_shows_all_the_same(late: int, windows: int, work_s: float) -> None:
    told, certain = bunches(late, QUEUE, windows, work_s)
    assert told > certain


def test_of_a_mean_one_burst_is_chance_however_alike_its_items_are() -> None:
    stage = StageProfile("a", 0.09, 0.09, 0.6, 0.09, 0.09, 80)
    at = replace(STILL, now_s=10.0, window_start_s=0.0, stages=(stage,), input=USERS)
    told = {
        late_s: Evidence().errors(MEAN, replace(at, latency=latency_stats(np.linspace(0.95, 1.05, 80) * late_s)), QUEUE)
        for late_s in (0.5, 5.0)
    }
    assert (told[0.5] or 0.0) < CERTAIN < (told[5.0] or 0.0)


def test_what_is_certain_grows_with_the_looks() -> None:
    certain = [CERTAIN, *(bunches(0, None, windows)[1] for windows in (2, 20, 60))]
    assert Evidence().certain == CERTAIN
    assert certain == sorted(set(certain))
    assert certain[-1] < 1.5 * CERTAIN


def test_a_throughput_is_not_told_item_by_item() -> None:
    assert Evidence().errors(objective_of(Slo("throughput", 10.0)), replace(STILL, now_s=1.0)) is None
