"""Portions of items that a source reads together, and the positions at which it can go on."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, NamedTuple, Protocol, runtime_checkable

Position = int | str | tuple[int, ...]
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
"""One an item."""


def part_of(marks: Marks, begin: int, end: int) -> Marks:
    """Those of items ``begin`` to before ``end``."""
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
    """A source that says of each item where it goes on behind it (``Portion.marks``), and can go on from there."""

    def seek(self, positions: Mapping[str, Position]) -> None:
        """Before the first read: what lies before is done. A partition that is not named begins where it would."""

    def commit(self, positions: Mapping[str, Position]) -> None:
        """Report that everything before these positions is complete and may be forgotten by the source; partitions that
        are not named have not advanced. May be called from any thread."""


SCALARS = frozenset({bool, int, float, type(None)})
SMALL_BYTES = 32
"""What a value weighs of which nothing else is known."""


class Refused:
    """A placeholder for an item that the app refuses: it becomes a dead letter in its place. ``why`` is its error."""

    made = False
    """True once this process has refused an item; before that nobody needs to search for refused items."""

    def __init__(self, why: str) -> None:
        self.why = why
        Refused.made = True

    def __reduce__(self) -> tuple[Any, ...]:
        return Refused, (self.why,)


class Portion(NamedTuple):
    """Items that were read together, with their times. ``due_s`` None: the input rate says when they were due.
    ``marks`` None: the source has no positions."""

    values: list[Any]
    arrived_s: tuple[float, ...]
    due_s: tuple[float, ...] | None = None
    marks: Marks | None = None


class Portions:
    """Cuts what an iterator yields. An item arrives when the reading of its portion begins."""

    def __init__(self, values: Iterator[Any], clock: Callable[[], float]) -> None:
        self._values, self._clock = values, clock
        self._error: BaseException | None = None

    def next(self, most: int, until_s: float) -> Portion | None:
        """Up to ``most`` items, read in ever larger steps until ``until_s``: a clock for each would cost more than the
        item. None: there is no more. Raises: what the iterator raises, once all that came before has been given out."""
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
    """About how much there is to carry: exact for arrays, bytes and texts, and for those one level down."""
    kinds = set(map(type, values))
    return 8 * len(values) if kinds <= SCALARS else sum(map(_weight, values))


def _weight(value: Any) -> int:
    if isinstance(value, dict):
        return SMALL_BYTES + sum(map(_own_weight, value.values()))
    if isinstance(value, list | tuple):
        return SMALL_BYTES + sum(map(_own_weight, value))
    return _own_weight(value)


def _own_weight(value: Any) -> int:
    if type(value) in SCALARS:  # most are, and to look for what they do not have is dear
        return SMALL_BYTES
    size = getattr(value, "nbytes", None)
    if isinstance(size, int):
        return size
    return len(value) if isinstance(value, str | bytes | bytearray) else SMALL_BYTES
