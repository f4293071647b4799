"""Sessions of users: their clicks, none of them further than a gap from the next, by event time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from pydantic import Field

from apps.contract import Outputs
from apps.event_time import KeyedPane, KeyedWindows, Pane, Sessions, Windowing
from apps.event_time.keyed import States
from apps.tpcxbb.options import QueryOptions
from apps.tpcxbb.portions import Ints, Portions, part_of
from apps.tpcxbb.query import PortionQuery, Query, RowQuery, Value
from apps.tpcxbb.schema import CLICKS

Session = tuple[int, Any]
"""When it is over, and what its clicks came to."""


class SessionOptions(QueryOptions):
    hours: float = Field(default=72.0, gt=0, le=100_000, description="Event time that these rows take")
    tick_s: int = Field(default=600, ge=1, description="Event time between two ticks")
    gap_s: int = Field(default=3600, ge=1, description="Clicks of a session are no further from each other")


class _Sessions(Query):
    """Says what clicks come to: ``_add`` and ``_merge``, as ``Windowing`` has them. Clicks are in order, never late."""

    stream = CLICKS
    options: SessionOptions

    def setup(self) -> None:
        self._open = KeyedWindows(Windowing(Sessions(self.options.gap_s), self._add, merge=self._merge))

    def _add(self, session: Any, click: int) -> Any:
        raise NotImplementedError

    def _merge(self, earlier: Any, later: Any) -> Any:
        raise AssertionError("clicks that are in order never close a gap")


class RowSessions(RowQuery, _Sessions):
    """Values are partition, time, user, and what there is of the click; of a session then partition, end, and what it
    came to."""

    def sessions_key(self, value: Value) -> int:
        return value[0]

    def sessions(self, value: Value, state: States | None) -> tuple[Outputs, States]:
        states, (part, time, *click) = state or {}, value
        if click:
            return Outputs(
                (part, *each) for each in _told(self._open.put(states, click[0], time, click[1], time))
            ), states
        told = _told(self._open.advance(states, time))
        return Outputs([*((part, *each) for each in told), *self.onward(value)]), states


class PortionSessions(PortionQuery, _Sessions):
    """Columns are time, user, and what there is of the click; ``_sessions_as_columns`` says what of a session."""

    def sessions_key(self, value: dict[str, Any]) -> int:
        return part_of(value)

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
