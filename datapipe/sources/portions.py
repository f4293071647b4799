"""Portions of items that a source reads together, and the positions from which it can continue."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, NamedTuple, Protocol, runtime_checkable

Position = int | str | tuple[int, ...]
"""The position of the next item to read, in a form that only the source interprets; plain data, to be stored."""
Mark = tuple[str, Position]
"""A partition, and the position in it after an item."""


@dataclass(frozen=True, slots=True)
class Counted:
    """Marks of items by counting: ``(partition, (times, number))`` each. Made only on demand, as a pair of tuples per
    item costs as much as the rest of reading the item."""

    partition: str
    times: int
    numbers: range

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[Mark]:
        return ((self.partition, (self.times, number)) for number in self.numbers)

    def part(self, begin: int, end: int) -> "Counted":
        return Counted(self.partition, self.times, self.numbers[begin:end])


@dataclass(frozen=True, slots=True)
class Closing:
    """The marks of items after which some partitions have ended: their positions can be forgotten. Iteration yields
    ``(partition, None)`` for each of these last."""

    marks: tuple[Mark, ...]
    over: frozenset[str]

    def __len__(self) -> int:
        return len(self.marks)

    def __iter__(self) -> Iterator[tuple[str, Position | None]]:
        return chain(self.marks, ((partition, None) for partition in self.over))

    def part(self, begin: int, end: int) -> "Marks":
        marks = self.marks[begin:end]
        return Closing(marks, self.over) if end >= len(self.marks) else marks


Marks = tuple[Mark, ...] | Counted | Closing
"""One mark per item."""


def part_of(marks: Marks, begin: int, end: int) -> Marks:
    """Return the marks of items ``begin`` to before ``end``."""
    return marks[begin:end] if isinstance(marks, tuple) else marks.part(begin, end)


def joined(first: Marks, second: Marks) -> Marks:
    """Return the marks of consecutive items as one."""
    if not isinstance(first, Closing) and not isinstance(second, Closing):
        return (*first, *second)
    one, two = (each if isinstance(each, Closing) else Closing(tuple(each), frozenset()) for each in (first, second))
    begun_anew = {partition for partition, _ in two.marks}
    return Closing(one.marks + two.marks, (one.over - begun_anew) | two.over)


@runtime_checkable
class Positioned(Protocol):
    """A source that gives the position after each item (``Portion.marks``), and can continue from a position."""

    def seek(self, positions: Mapping[str, Position]) -> None:
        """Set the positions to continue from, before the first read. Partitions not named start as usual."""

    def commit(self, positions: Mapping[str, Position]) -> None:
        """Report that everything before these positions is complete and may be forgotten by the source; partitions that
        are not named have not advanced. May be called from any thread."""


SCALARS = frozenset({bool, int, float, type(None)})
SMALL_BYTES = 32
"""Assumed size of a value of unknown size."""


class Refused:
    """A placeholder for an item that the app refuses: it becomes a dead letter in its place. ``why`` is its error."""

    made = False
    """True once this process has refused an item; before that no search for refused items is needed."""

    def __init__(self, why: str) -> None:
        self.why = why
        Refused.made = True

    def __reduce__(self) -> tuple[Any, ...]:
        return Refused, (self.why,)


class Portion(NamedTuple):
    """Items that were read together, with their times. ``due_s`` None: the input rate determines the due times.
    ``marks`` None: the source has no positions."""

    values: list[Any]
    arrived_s: tuple[float, ...]
    due_s: tuple[float, ...] | None = None
    marks: Marks | None = None


class Portions:
    """Reads portions from an iterator. An item's arrival time is the start of the read of its portion."""

    def __init__(self, values: Iterator[Any], clock: Callable[[], float]) -> None:
        self._values, self._clock = values, clock
        self._error: BaseException | None = None

    def next(self, most: int, until_s: float) -> Portion | None:
        """Return up to ``most`` items, read in growing steps until ``until_s``, as reading the clock for each costs too
        much. None: the end. Raises: the iterator's error, once all items before it have been returned."""
        if self._error is not None:
            raise self._error
        read: list[Any] = []
        times: list[float] = []
        while len(read) < most and ((now_s := self._clock()) < until_s or not read):
            before, step = len(read), min(max(1, len(read)), most - len(read))
            self._take(read, step)
            times += [now_s] * (len(read) - before)
            if len(read) < before + step:
                break
        return Portion(read, tuple(times)) if read else None

    def skip(self, count: int) -> None:
        deque(islice(self._values, count), maxlen=0)

    def _take(self, read: list[Any], count: int) -> None:
        try:
            read.extend(islice(self._values, count))  # what came before the one that raises is kept
        except BaseException as error:
            if not read:
                raise
            self._error = error


def weight_bytes(values: Sequence[Any]) -> int:
    """Estimate the size of values: exact for arrays, bytes and strings, also one level inside a container."""
    kinds = set(map(type, values))
    return 8 * len(values) if kinds <= SCALARS else sum(map(_weight, values))


def _weight(value: Any) -> int:
    if isinstance(value, dict):
        return SMALL_BYTES + sum(map(_own_weight, value.values()))
    if isinstance(value, list | tuple):
        return SMALL_BYTES + sum(map(_own_weight, value))
    return _own_weight(value)


def _own_weight(value: Any) -> int:
    if type(value) in SCALARS:  # the usual case; looking up a missing attribute would be slow
        return SMALL_BYTES
    size = getattr(value, "nbytes", None)
    if isinstance(size, int):
        return size
    return len(value) if isinstance(value, str | bytes | bytearray) else SMALL_BYTES
