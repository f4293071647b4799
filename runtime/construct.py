"""Construct named tuples faster than their class does: a task makes several of them."""

construct_fast = tuple.__new__
"""``construct_fast(Point, (x, y))`` is ``Point(x, y)`` in half of the time, as it skips the
Python code of ``NamedTuple``. All fields must be given, also those with defaults."""
