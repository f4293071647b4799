"""Common stages of the queries: sessions of clicks, counts by key in windows of event time, the highest counts."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

import numpy as np
from pydantic import Field

from apps.contract import Outputs
from apps.event_time import KeyedPane, KeyedWindows, Pane, Sessions, Windowing
from apps.event_time.windowing import States
from apps.tpcxbb.generate import CLICKS
from apps.tpcxbb.options import QueryOptions
from apps.tpcxbb.portions import Ints, Portions, columns_for, news_of
from apps.tpcxbb.query import PortionQuery, Query, RowQuery, Value
from compositions.errors import RecomposeError
from compositions.model import Stage, StageKind

MOST_PARTITIONS = 100
"""Maximum number of partitions, as in section 7.2 of Prasaad et al."""


def by_key(name: str) -> Stage:
    """Return a stage with one state per partition of the query: the keys are the partitions."""
    return Stage(name, StageKind.PARTITIONED, partitions=MOST_PARTITIONS, bounds=tuple(range(1, MOST_PARTITIONS)))


def on_portions(stages: tuple[Stage, ...], **columns: Sequence[str]) -> tuple[Stage, ...]:
    """Return the same stages for portions: those that are named here get a bundle of them with these columns."""
    return tuple(
        replace(each, batch=True, columns=columns_for("time", *columns[each.name])) if each.name in columns else each
        for each in stages
    )


Session = tuple[int, Any]
"""A session: the time when it is over, and the summary of its clicks."""


class SessionOptions(QueryOptions):
    hours: float = Field(default=72.0, gt=0, le=100_000, description="Event time that generated rows cover, in hours")
    tick_s: int = Field(default=600, ge=1, description="Event time between two ticks")
    gap_s: int = Field(default=3600, ge=1, description="Maximum time between two clicks of a session, in seconds")


class _Sessions(Query):
    """Sessions of clicks, summed up by ``_add`` and ``_merge`` of ``Windowing``. Clicks are in order, never late."""

    stream = CLICKS
    options: SessionOptions

    def setup(self) -> None:
        self._open = KeyedWindows(Windowing(Sessions(self.options.gap_s), self._add, merge=self._merge))

    def _add(self, session: Any, click: int) -> Any:
        raise NotImplementedError

    def _merge(self, earlier: Any, later: Any) -> Any:
        raise AssertionError("clicks must be in order, but one joins two sessions")


class RowSessions(RowQuery, _Sessions):
    """Values are partition, time, user and the click's fields; those of a session are partition, end and result."""

    def sessions(self, value: Value, state: States | None) -> tuple[Outputs, States]:
        states, (part, time, *click) = state or {}, value
        if click:
            ended = _told(self._open.put(states, click[0], time, click[1], time))
            return Outputs((part, *each) for each in ended), states
        told = _told(self._open.advance(states, time))
        return Outputs([*((part, *each) for each in told), *self.onward(value)]), states


class PortionSessions(PortionQuery, _Sessions):
    """Columns are time, user, and the click's fields; ``_sessions_as_columns`` makes a session's columns."""

    def sessions(self, value: dict[str, Any], state: States | None) -> tuple[dict[str, Any], States]:
        states, clicks = state or {}, Portions.one(value)
        panes: list[KeyedPane] = []
        for time, user, click in zip(*(column.tolist() for column in clicks.columns.values()), strict=True):
            panes += self._open.put(states, user, time, click, time)
        panes += self._open.advance(states, clicks.watermark)
        return clicks.of_rows(self._sessions_as_columns(_told(panes))).packed()[0], states

    def _sessions_as_columns(self, sessions: Sequence[Session]) -> dict[str, Ints]:
        raise NotImplementedError


def column(values: Sequence[int]) -> Ints:
    return np.array(values, np.int64)


def _told(panes: Sequence[KeyedPane]) -> list[Session]:
    return [(int(pane.window.end), pane.value) for _, pane in panes if isinstance(pane, Pane)]


Key = tuple[int, ...]
Counts = dict[int, dict[Key, int]]
"""Counts by start of the window."""
Table = tuple[Ints, Ints]
"""Keys, ascending, and their counts: pickled as two blocks, while a dict of 35,000 pairs would take 25 ms."""
Tables = dict[int, Table]
T = TypeVar("T")
_BITS = 31
_NONE: Ints = np.zeros(0, np.int64)
_NOTHING: Table = (_NONE, _NONE)


class RankingOptions(QueryOptions):
    window_s: int = Field(default=3600, ge=1, description="Event time of one ranking, in seconds")
    least: int = Field(default=50, ge=0, description="A ranked value occurs more often than this")
    most: int = Field(default=100, ge=1, description="Length of a ranking")


class _Ranking(Query):
    options: RankingOptions

    def _start(self, time: Any) -> Any:
        """Return the start of the window that contains ``time``."""
        return time - time % self.options.window_s

    def _tops(self, counts: Counts, watermark: int) -> Outputs:
        """Return the rankings of windows that are over, if any."""
        return Outputs(
            {"from_s": start, "until_s": start + self.options.window_s, "top": top(window, self.options.most)}
            for start, window in over(counts, self.options.window_s, watermark)
            if window
        )


class RowRanking(RowQuery, _Ranking):
    """Values are partition, time, and the parts of the counted key."""

    def count(self, value: Value, state: Counts | None) -> tuple[Any, Counts]:
        """Return the number of occurrences in this window."""
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
    """Columns are time, and those of ``counts_by``; none of their numbers exceeds 2³¹."""

    counts_by: ClassVar[tuple[str, ...]]

    def count(self, value: dict[str, Any], state: Tables | None) -> tuple[dict[str, Any], Tables]:
        tables, rows = state or {}, Portions.one(value)
        keys, starts = _packed([rows[name] for name in self.counts_by]), self._start(rows["time"])
        told: list[tuple[Ints, ...]] = []
        for start in np.unique(starts).tolist():
            there, now = np.unique(keys[starts == start], return_counts=True)
            tables[start], counts = _added(tables.get(start, _NOTHING), there, now)
            often = counts > self.options.least
            told.append((np.full(often.sum(), start), there[often], counts[often]))
        forget(tables, self.options.window_s, rows.watermark)
        start, key, count = (np.concatenate(column) for column in zip(*told, strict=True)) if told else (_NONE,) * 3
        columns = {"time": start, **dict(zip(self.counts_by, _parts(key, len(self.counts_by)), strict=True))}
        return rows.of_rows({**columns, "count": count}).packed()[0], tables

    def top(self, value: dict[str, Any], state: Counts | None) -> tuple[Outputs, Counts]:
        counts, told = state or {}, Portions.one(value)
        for start, *key, now in zip(*(column.tolist() for column in told.columns.values()), strict=True):
            counts.setdefault(start, {})[tuple(key)] = now
        return self._tops(counts, news_of(value, self.closing)), counts


def counted(counts: Counts, start: int, key: Key) -> int:
    """Count one more occurrence, and return the new count."""
    window = counts.setdefault(start, {})
    window[key] = now = window.get(key, 0) + 1
    return now


def over(counts: dict[int, T], window_s: int, watermark: int) -> Iterator[tuple[int, T]]:
    """Remove and yield the windows that are over, oldest first."""
    for start in sorted(start for start in counts if start + window_s <= watermark):
        yield start, counts.pop(start)


def forget(counts: dict[int, T], window_s: int, watermark: int) -> None:
    """Drop the windows that are over."""
    for _ in over(counts, window_s, watermark):
        pass


def top(counts: dict[Key, int], most: int) -> list[list[int]]:
    """Return the most frequent keys, each with its count; equal counts are in order of keys."""
    ranked = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    return [[*key, count] for key, count in ranked[:most]]


def _added(table: Table, there: Ints, now: Ints) -> tuple[Table, Ints]:
    """Return a table to which ``now`` occurrences of keys are added, and the new counts of these keys."""
    keys, counts = table
    place = np.searchsorted(keys, there)
    known = place < len(keys)
    known[known] = keys[place[known]] == there[known]
    counts, total = counts.copy(), now.copy()
    counts[place[known]] += now[known]
    total[known] = counts[place[known]]
    new = ~known
    return (np.insert(keys, place[new], there[new]), np.insert(counts, place[new], now[new])), total


def _packed(parts: Sequence[Ints]) -> Ints:
    """Pack the parts of a key into one number. Raises: RecomposeError for numbers that do not fit."""
    key = parts[0]
    largest = max((int(part.max(initial=0)) for part in parts), default=0)
    if len(parts) > 1 and largest >> _BITS:
        raise RecomposeError(
            f"key {largest} is too large for this app; give keys below {1 << _BITS:,}, or use the app whose "
            "items are single rows"
        )
    for part in parts[1:]:
        key = key << _BITS | part
    return key


def _parts(key: Ints, count: int) -> list[Ints]:
    """Return the parts of a number that ``_packed`` made."""
    return [key] if count == 1 else [key >> _BITS * shift & (1 << _BITS) - 1 for shift in range(count - 1, -1, -1)]
