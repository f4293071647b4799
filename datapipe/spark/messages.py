"""Messages between a runner, its Spark driver (over a pipe) and this driver's executors (at the runner's door).

Rows and results are JSON texts. They go between runner and executors; the driver learns their numbers.
"""

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
    door: str = ""


class Begin(NamedTuple):
    """To the runner: a micro-batch begins, and the results of its first ``durable`` rows are in the table already."""

    key: Key
    durable: int


class Begun(NamedTuple):
    """The answer; executors show ``number``, which is another one each time that a batch begins."""

    key: Key
    number: int


class Ready(NamedTuple):
    """A message to the driver: the runner has the results of all rows before ``until``."""

    key: Key
    until: int


class Durable(NamedTuple):
    """To the runner: the results of all rows before ``until`` are in the table for good."""

    key: Key
    until: int


class Ended(NamedTuple):
    """To the runner: the source has no more rows."""


class Failed(NamedTuple):
    """To the runner: it cannot work, and to try again would not help."""

    reason: str


Message = Setup | Begin | Begun | Ready | Durable | Ended | Failed


class Deliver(NamedTuple):
    """The first message of an executor that has the rows of a partition. When all partitions before are with the
    runner, it answers how many of the rows it knows. Lists of the others follow, then the number of all. The runner
    repeats it when it has taken the last one."""

    number: int
    partition: int


class Fetch(NamedTuple):
    """The only message of an executor that writes the results of some ``rows`` from ``first`` on, which it gets."""

    number: int
    first: int
    rows: int
