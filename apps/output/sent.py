"""Which rows a place has acknowledged that cannot be asked what it has."""

from __future__ import annotations

from collections.abc import Sequence

from apps.output.port import Row


class Sent:
    """Of one runner: an attempt that ended in the middle is gone on with, so that only what had no answer is there
    twice."""

    def __init__(self) -> None:
        self._until = 0
        """All of the items below are there."""
        self._rows: set[tuple[int, int | None]] = set()
        """And these, by serial number and part."""

    def missing(self, rows: Sequence[Row]) -> list[Row]:
        return [row for row in rows if row.serial >= self._until and (row.serial, row.part) not in self._rows]

    def add(self, row: Row) -> None:
        self._rows.add((row.serial, row.part))

    def all_before(self, until: int) -> None:
        """They are there; nobody will ask for their rows again."""
        self._until = until
        self._rows.clear()
