"""Named tuples of a tuple, in a third of the time that their class takes: of some there are several for every task."""

from __future__ import annotations

made = tuple.__new__
"""``made(Point, (x, y))`` is ``Point(x, y)`` without the call of Python code that ``NamedTuple`` has for it. All fields
are given, those with defaults as well."""
