"""How far a source was read: a position for each of its partitions, from which it can be read again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

Position = int | str | tuple[int, int]
"""Of the first item that is still to be read; what it means is the source's own matter. Plain, so that it can be
stored."""
Mark = tuple[str, Position]
"""A partition, and where it goes on behind one item."""


@dataclass(frozen=True, slots=True)
class Counted:
    """Marks of items that were counted: ``(partition, (times, number))`` each. Made when somebody asks for them: a pair
    of tuples an item costs as much as the rest of reading it."""

    partition: str
    times: int
    numbers: range

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[Mark]:
        return ((self.partition, (self.times, number)) for number in self.numbers)

    def part(self, begin: int, end: int) -> Counted:
        return Counted(self.partition, self.times, self.numbers[begin:end])


Marks = tuple[Mark, ...] | Counted
"""One an item."""


def part_of(marks: Marks, begin: int, end: int) -> Marks:
    """Those of items ``begin`` to before ``end``."""
    return marks.part(begin, end) if isinstance(marks, Counted) else marks[begin:end]


@runtime_checkable
class Positioned(Protocol):
    """A source that says of each item where it goes on behind it (``Portion.marks``), and can go on from there."""

    def seek(self, positions: Mapping[str, Position]) -> None:
        """Before the first read: what lies before is done. A partition that is not named begins where it would."""

    def commit(self, positions: Mapping[str, Position]) -> None:
        """All before is done for good, and may be forgotten by whoever keeps it. From any thread."""
