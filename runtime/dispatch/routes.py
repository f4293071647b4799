"""Where the values of items go, if the next stage is partitioned; and what came back in several parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, compress
from typing import Any, NamedTuple

PLAIN = -1
"""The count of an item that is one value, and no ``Outputs``."""
_DEAD = b"\0", PLAIN
"""Stands for a value that is not to be had; its item goes nowhere."""


class Routes(NamedTuple):
    """The partition of each value, those of all items side by side. ``counts``: how many values each item has, or
    ``PLAIN``; None: each is one."""

    partitions: bytes
    counts: tuple[int, ...] | None = None

    def part(self, begin: int, end: int) -> Routes:
        """Those of items ``begin`` to before ``end``."""
        if self.counts is None:
            return Routes(self.partitions[begin:end])
        starts = [0, *accumulate(map(abs, self.counts))]
        return Routes(self.partitions[starts[begin] : starts[end]], self.counts[begin:end])

    def item_of(self, position: int) -> int:
        """The item that the value at this position belongs to."""
        if self.counts is None:
            return position
        return next(item for item, end in enumerate(accumulate(map(abs, self.counts))) if position < end)

    @staticmethod
    def anywhere(serial: int, count: int, partitions: int) -> Routes:
        """Where nobody said, and nothing is kept that could be missed."""
        return Routes(bytes((serial + at) % partitions for at in range(count)))


class Routed(NamedTuple):
    """A payload for a partitioned stage."""

    payload: Any
    routes: Routes


class Mosaic(NamedTuple):
    """A payload in parts: of each, which values are in it, a byte each. ``counts`` as in ``Routes``."""

    counts: tuple[int, ...] | None
    picks: tuple[bytes, ...]
    parts: tuple[Any, ...]

    def in_order(self, parts: Sequence[Sequence[Any]]) -> list[Any]:
        """What belongs to each value, given that of the values of each part; None where there is none."""
        found: list[Any] = [None] * len(self.picks[0])
        for picked, values in zip(self.picks, parts, strict=True):
            for at, value in zip(compress(range(len(picked)), picked), values, strict=True):
                found[at] = value
        return found


def merged(counts: tuple[int, ...] | None, picks: tuple[bytes, ...], routes: Sequence[Routes | None]) -> Routes | None:
    """The routes of all, from those of parts; None: some are not known."""
    known = [each for each in routes if each is not None]
    if len(known) < len(routes):
        return None
    own = Mosaic(None, picks, ()).in_order([list(_by_value(each)) for each in known])
    values = [each or _DEAD for each in own]
    partitions = b"".join(each for each, _ in values)
    if counts is None and all(count == PLAIN for _, count in values):
        return Routes(partitions)
    rest = iter([count for _, count in values])
    return Routes(partitions, tuple(_count(rest, each) for each in counts or (PLAIN,) * len(values)))


def _by_value(routes: Routes) -> Iterator[tuple[bytes, int]]:
    """Of each item its partitions, and its count."""
    begin = 0
    for count in routes.counts or (PLAIN,) * len(routes.partitions):
        yield routes.partitions[begin : begin + abs(count)], count
        begin += abs(count)


def _count(rest: Iterator[int], values: int) -> int:
    """Of an item of so many values, of which each became as many as ``rest`` says."""
    return next(rest) if values == PLAIN else sum(abs(next(rest)) for _ in range(values))
