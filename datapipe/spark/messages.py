"""Messages between a runner, its Spark driver (over a pipe) and this driver's executors (at the runner's door).

Rows and results are JSON texts. They go between runner and executors; the driver learns their numbers.
"""

from collections.abc import Mapping
from typing import NamedTuple


class Key(NamedTuple):
    """The key of a micro-batch: its streaming query, and its number."""

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
    """The first message to the driver. ``source`` and ``sink``: None if not Spark. ``once``: end when all present input
    has been read. ``query``: the name for the results if the source is not Spark."""

    app: str
    source: StreamSource | None
    sink: TableSink | None
    checkpoint: str | None
    once: bool
    query: str
    door: str = ""


class Begin(NamedTuple):
    """A message to the runner: a micro-batch begins; the results of its first ``durable`` rows are in the table."""

    key: Key
    durable: int


class Begun(NamedTuple):
    """The answer to ``Begin``. Executors send ``number``, which differs for each begin of a batch."""

    key: Key
    number: int


class Ready(NamedTuple):
    """A message to the driver: the runner has the results of all rows before ``until``."""

    key: Key
    until: int


class Durable(NamedTuple):
    """A message to the runner: the results of all rows before ``until`` are durable in the table."""

    key: Key
    until: int


class Ended(NamedTuple):
    """A message to the runner: the source has no more rows."""


class Failed(NamedTuple):
    """A message to the runner: the driver has failed, and a retry would not help."""

    reason: str


Message = Setup | Begin | Begun | Ready | Durable | Ended | Failed


class Deliver(NamedTuple):
    """The first message of an executor that has the rows of a partition. When the runner has all earlier partitions, it
    answers the number of rows that it already has. The executor sends lists of the others, then the total number, which
    the runner repeats when it has taken the last row."""

    number: int
    partition: int


class Fetch(NamedTuple):
    """A request of an executor for the results of ``rows`` rows from ``first`` on, which it then writes."""

    number: int
    first: int
    rows: int
