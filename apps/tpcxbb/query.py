"""Base classes of the queries: the source of their rows, and the values that go from stage to stage."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from apps.contract import App, Options, Outputs
from apps.tpcxbb import tables
from apps.tpcxbb.generate import Stream
from apps.tpcxbb.options import QueryOptions
from apps.tpcxbb.portions import END, packed, part_of
from apps.tpcxbb.tables import Columns
from compositions.errors import RecomposeError

TICK = "tick"
"""The only field of a tick, an item that is not a row but says that no later row has an earlier time."""


def columns(options: QueryOptions, stream: Stream, names: Sequence[str]) -> Iterator[Columns]:
    """Yield the columns of a stream that a query reads, batch by batch. Raises: RecomposeError as ``tables.read``."""
    folder = Path(options.tables).expanduser()
    batches = tables.read(folder, stream) if options.tables else tables.made(options.plan, stream)
    return (tables.columns_of(batch, stream, names) for batch in batches)


def rows(batches: Iterable[Columns], tick_s: int) -> Iterator[dict[str, int]]:
    """Yield rows as dicts; a tick before the first row at or after each multiple of ``tick_s``, and after the last."""
    ticked = None
    for batch in batches:
        names = list(batch)
        for values in zip(*(column.tolist() for column in batch.values()), strict=True):
            tick = values[0] // tick_s
            if tick != ticked:
                if ticked is not None:
                    yield {TICK: tick * tick_s}
                ticked = tick
            yield dict(zip(names, values, strict=True))
    yield {TICK: END}


def portions(batches: Iterable[Columns], size: int) -> Iterator[dict[str, Any]]:
    """Yield portions of ``size`` rows, fewer at a batch's end; each has its last row's time, or the stream's end."""
    names: list[str] = []
    for batch in batches:
        names = list(batch)
        for first in range(0, len(batch["time"]), size):
            cut = {name: column[first : first + size] for name, column in batch.items()}
            yield packed(cut, int(cut["time"][-1]))
    yield packed({name: np.zeros(0, np.int64) for name in names or ("time",)}, END)


Row = dict[str, int]
Value = tuple[Any, ...]
"""A value between stages: partition, time, and the stage's data, which a tick does not have."""


class Query(App):
    """A query over a stream. ``reads``: the columns that it needs, besides the time."""

    stream: ClassVar[Stream]
    reads: ClassVar[tuple[str, ...]]
    options_model: ClassVar[type[Options]] = QueryOptions
    options: QueryOptions

    @property
    def closing(self) -> int:
        """Return the last partition among the values of an item; after it, no values of earlier items follow."""
        return self.options.partitions - 1

    def items(self, path: Path | None) -> Iterator[Any]:
        if path is not None:
            raise RecomposeError(
                f"app {self.name!r} accepts no path, but {str(path)!r} was given; give the folder as -o tables={path}, "
                "because the workers read it, too"
            )
        return self._items(columns(self.options, self.stream, self.reads))

    def _items(self, batches: Iterator[Columns]) -> Iterator[Any]:
        raise NotImplementedError

    def _row(self, value: Any) -> Row:
        """Return the row of a JSON value. Raises: ValueError if the value is not a row."""
        wanted = ("time", *self.reads)
        if not isinstance(value, dict) or not all(type(value.get(name)) is int for name in wanted):
            raise ValueError(f"{value!r} is no row; must be an object with whole numbers {', '.join(wanted)}")
        return {name: value[name] for name in wanted}


class RowQuery(Query):
    """Items are rows, and ticks."""

    def _items(self, batches: Iterator[Columns]) -> Iterator[Row]:
        return rows(batches, self.options.tick_s)

    def from_json(self, value: Any) -> Row:
        if isinstance(value, dict) and set(value) == {TICK} and type(value[TICK]) is int:
            return value
        return self._row(value)

    def count_key(self, value: Value) -> int:
        return value[0]

    pairs_key = sessions_key = before_key = trend_key = count_key

    def ticks(self, time: int) -> Outputs:
        return Outputs((part, time) for part in range(self.options.partitions))

    def onward(self, tick: Value) -> Outputs:
        """Return a partitioned stage's output for a tick: its last partition informs those of the next stage."""
        return self.ticks(tick[1]) if tick[0] == self.closing else Outputs()


class PortionQuery(Query):
    """Items are portions of many rows."""

    def _items(self, batches: Iterator[Columns]) -> Iterator[dict[str, Any]]:
        return portions(batches, self.options.portion)

    def from_json(self, value: Any) -> dict[str, Any]:
        if not isinstance(value, list) or not value:
            raise ValueError(f"{value!r} is no portion; must be a list of one row or more, in order of time")
        rows = [self._row(each) for each in value]
        columns = {name: np.array([row[name] for row in rows], np.int64) for name in rows[0]}
        return packed(columns, rows[-1]["time"])

    def count_key(self, value: dict[str, Any]) -> int:
        return part_of(value)

    pairs_key = sessions_key = before_key = trend_key = count_key
