"""Messages between a runner and its Spark driver, over a pipe. Rows and results are JSON texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Key(NamedTuple):
    """A micro-batch: of which streaming query, and its number there."""

    query: str
    batch: int


class StreamSource(NamedTuple):
    """The input of Spark: a format and its options, and the SQL that makes items of its rows."""

    format: str
    path: str | None = None
    options: Mapping[str, str] = {}
    transform: str | None = None


class TableSink(NamedTuple):
    """The destination of results; ``schema`` is a DDL string, None for one column with JSON."""

    path: str
    format: str = "parquet"
    options: Mapping[str, str] = {}
    schema: str | None = None


class Setup(NamedTuple):
    """The first message, to the driver. ``source`` and ``sink`` are None where they are no Spark's; ``once``: end when
    all that is there now was read; ``query``: of the results, where the source is not Spark's."""

    app: str
    source: StreamSource | None
    sink: TableSink | None
    checkpoint: str | None
    once: bool
    query: str


class Begin(NamedTuple):
    """To the runner: a micro-batch begins, and the results of its first ``durable`` rows are in the table already."""

    key: Key
    durable: int


class Wanted(NamedTuple):
    """The answer: rows from ``first`` on are new to the runner, and it has room for those before ``until``."""

    key: Key
    first: int
    until: int


class Room(NamedTuple):
    """To the driver, while the batch goes on: there is room for the rows before ``until``."""

    key: Key
    until: int


class Rows(NamedTuple):
    """A message to the runner: rows ``first``, ``first + 1`` and so on."""

    key: Key
    first: int
    texts: list[str]


class ResultRows(NamedTuple):
    """A message to the driver: the results of rows ``first``, ``first + 1`` and so on."""

    key: Key
    first: int
    texts: list[str]


class Durable(NamedTuple):
    """To the runner: the results of all rows before ``until`` are in the table for good."""

    key: Key
    until: int


class Ended(NamedTuple):
    """To the runner: the source has no more rows."""


class Failed(NamedTuple):
    """To the runner: it cannot work, and to try again would not help."""

    reason: str


Message = Setup | Begin | Wanted | Room | Rows | ResultRows | Durable | Ended | Failed
