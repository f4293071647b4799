"""Samples, changes of the bundle size and marks: what is kept is bounded."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps import registry
from control.bundles.bundle_size import SizeRun, SizeRuns
from control.decisions import State
from datapipe.sources.portions import Closing, Counted, joined, part_of
from service.runner.rpc.requests import ReadHistory
from service.runner.telemetry.record import KEPT_S, History
from service.runner.wiring.checkpointer import Tracker
from service.schemas.base import plain
from service.schemas.spec import RunSpec
from service.schemas.status import Rates, Sample, resting

UNKNOWN = Sample.of(resting(registry.find("synthetic"), State.STARTING, RunSpec(app="synthetic"), None), "0")


def sample(at_s: float) -> Sample:
    return UNKNOWN.model_copy(update={"at": str(at_s)})


def filled(seconds: float, step_s: float) -> History:
    history = History()
    for k in range(int(seconds / step_s)):
        history.record(k * step_s, lambda k=k: sample(k * step_s))  # type: ignore[misc]
    return history


def test_one_sample_a_second_however_often_it_is_asked_also_after_a_pause() -> None:
    samples = filled(10, 0.25).since(0)
    assert [float(each.at) for each in samples] == [float(k) for k in range(10)]
    history = History()
    for at_s in (0.0, 50.0, 50.5, 51.0, 51.5, 52.0):
        history.record(at_s, lambda at_s=at_s: sample(at_s))  # type: ignore[misc]
    assert [float(each.at) for each in history.since(0)] == [0.0, 50.0, 51.0, 52.0]


def test_only_what_is_asked_for_and_never_more_than_an_hour() -> None:
    history = filled(KEPT_S + 500, 1.0)
    assert len(history.since(0)) == KEPT_S
    assert [float(each.at) for each in history.since(KEPT_S + 490)] == [float(KEPT_S + k) for k in range(490, 500)]


@pytest.mark.parametrize(("count", "most"), [(0, 5), (1, 5), (5, 5), (6, 5), (300, 100), (301, 100), (899, 2)])
def test_of_many_samples_evenly_many_are_told_the_latest_among_them(count: int, most: int) -> None:
    samples = filled(count, 1.0).since(0)
    told = ReadHistory(300.0, most).thin(samples)
    assert len(told) <= most
    assert told[-1:] == samples[-1:]
    times = [float(each.at) for each in told]
    assert len({later - earlier for earlier, later in pairwise(times)}) <= 1
    assert ReadHistory(300.0).thin(samples) == samples


def test_rates_are_columns_and_where_nothing_is_known_empty() -> None:
    known = sample(7.0).model_copy(update={"offered_per_s": 10.0, "throughput_per_s": 9.0})
    columns = {"app": "a", "at": ["7.0"], "offered_per_s": [10.0], "delivered_per_s": [9.0]}
    assert plain(Rates.of("a", [known])) == columns
    assert plain(Rates.of("a", [])) == {"app": "a", "at": [], "offered_per_s": [], "delivered_per_s": []}


# Changes of the bundle size are kept one entry for many.


def test_what_does_not_change_is_not_kept_and_changes_that_follow_each_other_are_one_entry() -> None:
    runs = SizeRuns()
    for _ in range(5):
        runs.note(0.0, "auto", 1, "first")
    assert (list(runs.kept), runs.used) == ([], [1])
    for turn in range(1000):  # a hundred a second
        runs.note(1.0 + turn / 100, "pid", 5 + turn % 7, f"turn {turn}")
    assert list(runs.kept) == [SizeRun("pid", 1, 5 + 999 % 7, "turn 999", 1.0, 10.99, 1, 11, 1000)]
    assert runs.used == [1, 5, 6, 7, 8, 9, 10, 11]


def test_a_pause_another_controller_and_a_minute_begin_another_entry() -> None:
    runs = SizeRuns()
    runs.note(0.0, "auto", 1, "first")
    runs.note(1.0, "auto", 8, "a hop shows")
    runs.note(12.0, "auto", 4, "a pause of more than ten seconds")
    runs.note(12.5, "pid", 4, "the same size, chosen by another")
    assert [(each.controller, each.from_items, each.to_items) for each in runs.kept] == [
        ("auto", 1, 8), ("auto", 8, 4), ("pid", 4, 4),
    ]  # fmt: skip
    for second in range(13, 200):
        runs.note(float(second), "pid", second, "every second")
    assert [each.count for each in runs.kept] == [1, 1, 61, 60, 60, 7]

    for turn in range(3 * SizeRuns.KEPT):
        runs.note(200 + turn * 20.0, "auto", 1 + turn % 2, "")
    assert len(runs.kept) == SizeRuns.KEPT


@given(st.integers(0, 3), st.integers(0, 50), st.integers(0, 30), st.integers(0, 40), st.integers(0, 40))
def test_counted_marks_are_those_written_out(times: int, first: int, count: int, begin: int, end: int) -> None:
    marks = Counted("items", times, range(first, first + count))
    written = tuple(("items", (times, number)) for number in range(first, first + count))
    assert (len(marks), tuple(marks)) == (count, written)
    assert tuple(part_of(marks, begin, end)) == part_of(written, begin, end)
    assert dict(part_of(marks, begin, end)) == dict(written[begin:end])


def test_what_is_over_is_over_behind_the_items_that_came_before() -> None:
    closing = Closing((("a", 1), ("b", 2)), frozenset({"x", "y"}))
    assert (len(closing), dict(closing)) == (2, {"a": 1, "b": 2, "x": None, "y": None})
    assert part_of(closing, 0, 1) == (("a", 1),)
    assert part_of(closing, 1, 2) == Closing((("b", 2),), frozenset({"x", "y"}))
    later = (("x", 1),)
    assert dict(joined(closing, later)) == {"a": 1, "b": 2, "y": None, "x": 1}, "x began anew"
    assert dict(joined(later, closing)) == {"a": 1, "b": 2, "y": None, "x": None}
    assert joined(later, Counted("n", 0, range(1, 2))) == (("x", 1), ("n", (0, 1)))
    assert len(joined(Counted("n", 0, range(1, 3)), closing)) == 4


def test_of_positions_is_told_what_changed_and_each_once() -> None:
    tracker = Tracker()
    tracker.admitted(0, (("a", 1), ("b", 1), ("a", 2)))
    tracker.admitted(3, Closing((("c", 1), ("c", 2)), frozenset({"a"})))
    assert tracker.behind(2) == {"a": 1, "b": 1}
    assert tracker.behind(4) == {"a": 2, "c": 1}
    assert tracker.behind(4) == {}
    assert tracker.behind(5) == {"c": 2, "a": None}
