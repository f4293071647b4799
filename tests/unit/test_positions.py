"""Marks that are made when somebody asks for them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from apps.input.positions import Counted, part_of


@given(st.integers(0, 3), st.integers(0, 50), st.integers(0, 30), st.integers(0, 40), st.integers(0, 40))
def test_counted_marks_are_those_that_would_have_been_written_out(
    times: int, first: int, count: int, begin: int, end: int
) -> None:
    marks = Counted("items", times, range(first, first + count))
    written = tuple(("items", (times, number)) for number in range(first, first + count))
    assert (len(marks), tuple(marks)) == (count, written)
    assert tuple(part_of(marks, begin, end)) == part_of(written, begin, end)
    assert dict(part_of(marks, begin, end)) == dict(written[begin:end])
