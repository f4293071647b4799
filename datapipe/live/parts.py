"""Results on their way into the table: when enough of them are there, or have waited long enough, they are a part."""

from __future__ import annotations

from collections import deque
from time import monotonic

from datapipe.live.messages import Durable, Key
from datapipe.live.progress import Progress
from datapipe.live.table import Table

PART_ROWS, PART_S = 2000, 2.0
"""A part is written when it has so many results, or its first has waited for so long, or the batch is complete."""


class Parts:
    """One thread only."""

    def __init__(self, table: Table, progress: Progress) -> None:
        self._table, self._progress = table, progress
        self._key: Key | None = None
        self._results: deque[str] = deque()
        self._waiting_since_s: float | None = None

    def add(self, key: Key, first: int, texts: list[str]) -> None:
        """Takes what comes next of these results. A message that was meant for a driver before this one may overlap
        with what is here, or lie ahead: then it comes again, as the runner began anew from what was durable."""
        if key != self._progress.key:
            return
        if key != self._key:
            self._key = key
            self._results.clear()
        expected = self._progress.durable + len(self._results)
        self._results.extend(texts[expected - first :] if first <= expected else [])
        self._waiting_since_s = self._waiting_since_s or monotonic()

    def write_due(self) -> list[Durable]:
        """Writes the parts that are due; what became durable."""
        told = []
        while len(self._results) >= PART_ROWS:
            told += self.write(PART_ROWS)
        waited = self._waiting_since_s is not None and monotonic() - self._waiting_since_s > PART_S
        if self._results and (waited or not self._progress.lacks(len(self._results))):
            told += self.write(len(self._results))
        return told

    def write(self, count: int) -> list[Durable]:
        """Writes a part of ``count`` results."""
        key = self._key
        if not count or key is None or key != self._progress.key:
            return []
        first = self._progress.durable
        self._table.write(key, first, [self._results.popleft() for _ in range(count)])
        self._waiting_since_s = monotonic() if self._results else None
        self._progress.written(key, first + count)
        return [Durable(key, first + count)]
