"""What the queries have in common: where their rows come from, and what goes from stage to stage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from apps.contract import App, Options, Outputs
from apps.tpcxbb import source
from apps.tpcxbb.options import QueryOptions
from apps.tpcxbb.portions import packed
from apps.tpcxbb.schema import Stream
from apps.tpcxbb.tables import Columns
from compositions.errors import RecomposeError

Row = dict[str, int]
Value = tuple[Any, ...]
"""Between stages: partition, time, and what a stage has to tell; nothing more where it is a tick."""


class Query(App):
    """A query over a stream. ``reads``: the columns that it needs, besides the time."""

    stream: ClassVar[Stream]
    reads: ClassVar[tuple[str, ...]]
    options_model: ClassVar[type[Options]] = QueryOptions
    options: QueryOptions

    @property
    def closing(self) -> int:
        """The partition that comes last among the values of an item: after it there is no more of what was before."""
        return self.options.partitions - 1

    def items(self, path: Path | None) -> Iterator[Any]:
        if path is not None:
            raise RecomposeError(
                f"app {self.name!r} takes no path, but {str(path)!r} was given; give the folder as -o tables={path}, "
                "for workers read there too"
            )
        return self._items(source.columns(self.options, self.stream, self.reads))

    def _items(self, batches: Iterator[Columns]) -> Iterator[Any]:
        raise NotImplementedError

    def _row(self, value: Any) -> Row:
        """Raises: ValueError when it is none."""
        wanted = ("time", *self.reads)
        if not isinstance(value, dict) or not all(type(value.get(name)) is int for name in wanted):
            raise ValueError(f"{value!r} is no row; must be an object with whole numbers {', '.join(wanted)}")
        return {name: value[name] for name in wanted}


class RowQuery(Query):
    """Items are rows, and ticks."""

    def _items(self, batches: Iterator[Columns]) -> Iterator[Row]:
        return source.rows(batches, self.options.tick_s)

    def from_json(self, value: Any) -> Row:
        if isinstance(value, dict) and set(value) == {source.TICK} and type(value[source.TICK]) is int:
            return value
        return self._row(value)

    def ticks(self, time: int) -> Outputs:
        """A tick for each partition."""
        return Outputs((part, time) for part in range(self.options.partitions))

    def onward(self, tick: Value) -> Outputs:
        """What a stage with a state in partitions gives for a tick: its last partition tells those of the next."""
        return self.ticks(tick[1]) if tick[0] == self.closing else Outputs()


class PortionQuery(Query):
    """Items are portions of many rows."""

    def _items(self, batches: Iterator[Columns]) -> Iterator[dict[str, Any]]:
        return source.portions(batches, self.options.portion)

    def from_json(self, value: Any) -> dict[str, Any]:
        if not isinstance(value, list) or not value:
            raise ValueError(f"{value!r} is no portion; must be a list of one row or more, in order of time")
        rows = [self._row(each) for each in value]
        columns = {name: np.array([row[name] for row in rows], np.int64) for name in rows[0]}
        return packed(columns, rows[-1]["time"])
