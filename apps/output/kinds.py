"""Kinds of sinks that are an adapter over a library: what each is called, what else it takes, and how it is opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from apps.output.port import Sink
from apps.output.sql import TABLE, SqlSink


@dataclass(frozen=True, slots=True)
class Opening:
    """``run`` and ``epoch``: who writes."""

    path: str
    run: str
    epoch: int
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SinkKind:
    name: str
    open: Callable[[Opening], Sink]
    """Reaches for nothing yet. Raises: RecomposeError for a path that can be none, or where a library is missing."""
    options: tuple[str, ...] = ()

    def fault(self, options: Mapping[str, Any]) -> str | None:
        strange = [option for option in options if option not in self.options]
        return f"sink {self.name} has no option {strange[0]!r}; it has {', '.join(self.options)}" if strange else None


def _sql(opening: Opening) -> Sink:
    return SqlSink(opening.path, opening.run, opening.epoch, str(opening.options.get("table", TABLE)))


SQL = SinkKind("sql", _sql, ("table",))
KINDS: Mapping[str, SinkKind] = {kind.name: kind for kind in (SQL,)}
