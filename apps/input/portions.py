"""Items that a source reads together: as many as it has at hand, with a clock for all of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from apps.input.positions import Marks

SCALARS = frozenset({bool, int, float, type(None)})
SMALL_BYTES = 32
"""What a value weighs of which nothing else is known."""


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
        """Up to ``most`` items, read in ever larger steps until ``until_s``: a clock for each would cost more than
        the item. None: there is no more.

        Raises: what the iterator raises, once all that came before has been given out.
        """
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
        """Those were read before."""
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
