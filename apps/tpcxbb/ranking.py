"""The last two stages of queries that rank: counts by key in tumbling windows of event time, and their tops."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from pydantic import Field

from apps.contract import Outputs
from apps.tpcxbb.options import QueryOptions
from apps.tpcxbb.portions import Ints, Portions, news_of, part_of
from apps.tpcxbb.query import PortionQuery, Query, RowQuery, Value

Key = tuple[int, ...]
Counts = dict[int, dict[Key, int]]
"""By begin of the window."""


class RankingOptions(QueryOptions):
    window_s: int = Field(default=3600, ge=1, description="Event time for which a top is told")
    least: int = Field(default=50, ge=0, description="What is ranked is there more often than that")
    most: int = Field(default=100, ge=1, description="Places of a top")


class _Ranking(Query):
    options: RankingOptions

    def _start(self, time: Any) -> Any:
        """Of the window."""
        return time - time % self.options.window_s

    def _tops(self, counts: Counts, watermark: int) -> Outputs:
        """What is told of windows that are over, if there is anything."""
        return Outputs(
            {"from_s": start, "until_s": start + self.options.window_s, "top": top(window, self.options.most)}
            for start, window in over(counts, self.options.window_s, watermark)
            if window
        )


class RowRanking(RowQuery, _Ranking):
    """Values are partition, time, and the parts of what is counted."""

    def count_key(self, value: Value) -> int:
        return value[0]

    def count(self, value: Value, state: Counts | None) -> tuple[Any, Counts]:
        """How often it was there in this window."""
        counts, (part, time, *key) = state or {}, value
        if not key:
            forget(counts, self.options.window_s, time)
            return (value if part == self.closing else Outputs()), counts
        now = counted(counts, self._start(time), tuple(key))
        return ((part, time, *key, now) if now > self.options.least else Outputs()), counts

    def top(self, value: Value, state: Counts | None) -> tuple[Outputs, Counts]:
        counts, (_, time, *counted_) = state or {}, value
        if not counted_:
            return self._tops(counts, time), counts
        *key, now = counted_
        counts.setdefault(self._start(time), {})[tuple(key)] = now
        return Outputs(), counts


class PortionRanking(PortionQuery, _Ranking):
    """Columns are time, and the parts of what is counted."""

    def count_key(self, value: dict[str, Any]) -> int:
        return part_of(value)

    def count(self, value: dict[str, Any], state: Counts | None) -> tuple[dict[str, Any], Counts]:
        counts, rows = state or {}, Portions.one(value)
        names = [name for name in rows.columns if name != "time"]
        keys = zip(*(rows[name].tolist() for name in names), strict=True)
        now = {
            (start, *key): count
            for start, key in zip(self._start(rows["time"]).tolist(), keys, strict=True)
            if (count := counted(counts, start, key)) > self.options.least
        }
        forget(counts, self.options.window_s, rows.watermark)
        flat: Ints = np.array([(*key, count) for key, count in now.items()], np.int64).reshape(-1, len(names) + 2)
        told = rows.of_rows(dict(zip(("time", *names, "count"), flat.T, strict=True)))
        return told.packed()[0], counts

    def top(self, value: dict[str, Any], state: Counts | None) -> tuple[Outputs, Counts]:
        counts, told = state or {}, Portions.one(value)
        for start, *key, now in zip(*(column.tolist() for column in told.columns.values()), strict=True):
            counts.setdefault(start, {})[tuple(key)] = now
        return self._tops(counts, news_of(value, self.closing)), counts


def counted(counts: Counts, start: int, key: Key) -> int:
    """One more; returns how many there are now."""
    window = counts.setdefault(start, {})
    window[key] = now = window.get(key, 0) + 1
    return now


def over(counts: Counts, window_s: int, watermark: int) -> Iterator[tuple[int, dict[Key, int]]]:
    """Takes out the windows that are over, oldest first."""
    for start in sorted(start for start in counts if start + window_s <= watermark):
        yield start, counts.pop(start)


def forget(counts: Counts, window_s: int, watermark: int) -> None:
    """Drops the windows that are over."""
    for _ in over(counts, window_s, watermark):
        pass


def top(counts: dict[Key, int], most: int) -> list[list[int]]:
    """The most frequent, each with its count; equal ones by key."""
    ranked = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    return [[*key, count] for key, count in ranked[:most]]
