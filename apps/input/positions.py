"""How far a source was read: a position for each of its partitions, from which it can be read again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

Position = int | str | tuple[int, int]
"""Of the first item that is still to be read; what it means is the source's own matter. Plain, so that it can be
stored."""
Mark = tuple[str, Position]
"""A partition, and where it goes on behind one item."""


@runtime_checkable
class Positioned(Protocol):
    """A source that says of each item where it goes on behind it (``Portion.marks``), and can go on from there."""

    def seek(self, positions: Mapping[str, Position]) -> None:
        """Before the first read: what lies before is done. A partition that is not named begins where it would."""

    def commit(self, positions: Mapping[str, Position]) -> None:
        """All before is done for good, and may be forgotten by whoever keeps it. From any thread."""
