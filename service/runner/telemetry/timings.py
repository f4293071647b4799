"""Stage times of items that have not left yet, bundle by bundle: the items of a task share its time evenly."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from typing import Any

from profiler.snapshot import StageTiming

Shares = tuple[Any, ...]
"""Stage, wall and CPU time of one item in seconds, one after the other."""


class Timings:
    """By the first serial number of a run of items that were timed together so far, how many they are and their shares.

    A bundle is mostly timed, and leaves, as it is: one look-up each. Where it was taken apart, so is its run here.
    """

    def __init__(self) -> None:
        self._runs: dict[int, tuple[int, list[Any]]] = {}
        self._firsts: list[int] = []
        """Of the runs, ascending."""

    def add(self, serial: int, count: int, timings: Sequence[StageTiming]) -> None:
        """A task of ``count`` items from ``serial`` on took so long."""
        shares: list[Any] = []
        for timing in timings:
            shares += (timing.stage, timing.wall_s / count, timing.cpu_s / count)
        known = self._runs.get(serial)
        if known is not None and known[0] == count:
            known[1].extend(shares)
        elif self._unknown(serial, count):
            self._put(serial, count, shares)
        else:
            for first, items in list(self._parts(serial, count)):
                if first in self._runs:
                    self._runs[first][1].extend(shares)
                else:
                    self._put(first, items, list(shares))

    def pop(self, serial: int, count: int) -> list[tuple[int, Shares]]:
        """``count`` items from ``serial`` on have left: in order, how many have the same shares, and these."""
        known = self._runs.get(serial)
        if known is not None and known[0] == count:
            return [(count, self._take(serial))]
        if self._unknown(serial, count):
            return [(count, ())]
        return [(items, self._take(first)) for first, items in list(self._parts(serial, count))]

    def _put(self, first: int, items: int, shares: list[Any]) -> None:
        self._runs[first] = (items, shares)
        insort(self._firsts, first)

    def _take(self, first: int) -> Shares:
        if first not in self._runs:
            return ()
        del self._firsts[bisect_left(self._firsts, first)]
        return tuple(self._runs.pop(first)[1])

    def _unknown(self, serial: int, count: int) -> bool:
        """Return whether none of these items was timed."""
        place = bisect_right(self._firsts, serial)
        before = self._firsts[place - 1] if place else None
        if before is not None and before + self._runs[before][0] > serial:
            return False
        return place == len(self._firsts) or self._firsts[place] >= serial + count

    def _parts(self, serial: int, count: int) -> Iterator[tuple[int, int]]:
        """First serial number and length of runs that make up these items, those that were never timed between them.
        Runs that reach beyond are cut."""
        end = serial + count
        self._cut(serial)
        self._cut(end)
        for first in self._firsts[bisect_left(self._firsts, serial) : bisect_left(self._firsts, end)]:
            if first > serial:
                yield serial, first - serial
            items = self._runs[first][0]
            yield first, items
            serial = first + items
        if serial < end:
            yield serial, end - serial

    def _cut(self, serial: int) -> None:
        place = bisect_left(self._firsts, serial)
        if not place:
            return
        first = self._firsts[place - 1]
        items, shares = self._runs[first]
        if first + items > serial:
            self._runs[first] = (serial - first, shares)
            self._put(serial, first + items - serial, list(shares))
