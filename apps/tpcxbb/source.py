"""The streams as items: a row each, with ticks between them, or portions of many rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from apps.tpcxbb import tables
from apps.tpcxbb.options import QueryOptions
from apps.tpcxbb.portions import END, packed
from apps.tpcxbb.schema import Stream
from apps.tpcxbb.tables import Columns

TICK = "tick"
"""The only name in an item that is no row: no later row is before that time."""


def columns(options: QueryOptions, stream: Stream, names: Sequence[str]) -> Iterator[Columns]:
    """The columns of a stream that a query reads, batch by batch. Raises: RecomposeError as ``tables.read``."""
    folder = Path(options.tables).expanduser()
    batches = tables.read(folder, stream) if options.tables else tables.made(options.plan, stream)
    return (tables.columns_of(batch, stream, names) for batch in batches)


def rows(batches: Iterable[Columns], tick_s: int) -> Iterator[dict[str, int]]:
    """Rows as dicts; before the first one at or after each multiple of ``tick_s`` a tick, and one after the last."""
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
    """Portions of ``size`` rows, the last of a batch smaller; each tells of the time of its last row, and one without
    rows of the end."""
    names: list[str] = []
    for batch in batches:
        names = list(batch)
        for first in range(0, len(batch["time"]), size):
            cut = {name: column[first : first + size] for name, column in batch.items()}
            yield packed(cut, int(cut["time"][-1]))
    yield packed({name: np.zeros(0, np.int64) for name in names or ("time",)}, END)
