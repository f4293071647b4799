"""Marks that are made when somebody asks for them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from datapipe.sources.portions import Closing, Counted, joined, part_of
from service.runner.wiring.checkpointer import Tracker


@given(st.integers(0, 3), st.integers(0, 50), st.integers(0, 30), st.integers(0, 40), st.integers(0, 40))
def test_counted_marks_are_those_that_would_have_been_written_out(
    times: int, first: int, count: int, begin: int, end: int
) -> None:
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
