"""What stages took for items that have not left yet, bundle by bundle: the items of a task share its time evenly."""

from __future__ import annotations

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

    def add(self, serial: int, count: int, timings: Sequence[StageTiming]) -> None:
        """A task of ``count`` items from ``serial`` on took so long."""
        shares = [each for one in timings for each in (one.stage, one.wall_s / count, one.cpu_s / count)]
        known = self._runs.get(serial)
        if known is not None and known[0] == count:
            known[1].extend(shares)
            return
        for first, items in self._parts(serial, count):
            known = self._runs.get(first)
            self._runs[first] = (items, [*known[1], *shares] if known is not None else list(shares))

    def pop(self, serial: int, count: int) -> list[tuple[int, Shares]]:
        """``count`` items from ``serial`` on have left: in order, how many have the same shares, and these."""
        known = self._runs.get(serial)
        if known is not None and known[0] == count:
            del self._runs[serial]
            return [(count, tuple(known[1]))]
        return [(items, tuple(self._runs.pop(first, (items, []))[1])) for first, items in self._parts(serial, count)]

    def _parts(self, serial: int, count: int) -> Iterator[tuple[int, int]]:
        """First serial number and length of runs that make up these items, those that were never timed between them.

        Runs that reach beyond are cut. Rare, so that looking through all is no matter: there are as many as bundles in
        flight.
        """
        end = serial + count
        self._cut(serial)
        self._cut(end)
        for first in sorted(first for first in self._runs if serial <= first < end):
            if first > serial:
                yield serial, first - serial
            items = self._runs[first][0]
            yield first, items
            serial = first + items
        if serial < end:
            yield serial, end - serial

    def _cut(self, serial: int) -> None:
        for first, (items, shares) in list(self._runs.items()):
            if first < serial < first + items:
                self._runs[first] = (serial - first, shares)
                self._runs[serial] = (first + items - serial, list(shares))
