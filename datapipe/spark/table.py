"""Table sinks for results: each part of a table is written aside and put in its place by one rename.

::

    PATH/query=Q/batch=7/part-000000000-000001999.parquet      results of rows 0 … 1999 of micro-batch 7

The names of the parts alone give the progress of a batch, so a driver that starts after a crash writes nothing twice.
Every table has the columns ``row`` and ``error``, and ``value``, which is the result as JSON, or else the fields of the
sink's schema. A row may give any number of values: each of them is a row of the table, numbered by the column ``part``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Protocol

import pyarrow as pa

from compositions.errors import RecomposeError
from datapipe.spark.messages import Key, TableSink

FORMATS = ("parquet", "orc", "json", "csv")
ROWS = pa.schema([("row", pa.int64()), ("part", pa.int32()), ("result", pa.string())])
SEVERAL = '{"values":'
"""How the result of a row begins that gave any number of values."""
PART = re.compile(r"part-(\d+)-(\d+)\.")


class Table(Protocol):
    def durable(self, key: Key) -> int:
        """Rows of the batch, from 0 on, whose results are there."""

    def write(self, key: Key, first: int, results: Sequence[str]) -> None: ...


class NoTable:
    """The results are kept by somebody else: what the runner has delivered is durable."""

    def durable(self, key: Key) -> int:
        return 0

    def write(self, key: Key, first: int, results: Sequence[str]) -> None:
        pass


class PartTable:
    """Raises: RecomposeError for a format that has no files."""

    def __init__(self, spark: Any, sink: TableSink) -> None:
        self._format = sink.format
        if self._format not in FORMATS:
            raise RecomposeError(f"sink format {self._format!r} is not accepted; {', '.join(FORMATS)} are")
        self._spark, self._schema = spark, sink.schema
        self._options = sink.options
        self._root = sink.path.rstrip("/")
        self._files = Files(spark, self._root)

    def durable(self, key: Key) -> int:
        return covered(self._files.names(self._folder(key)))

    def write(self, key: Key, first: int, results: Sequence[str]) -> None:
        aside = f"{self._root}/_staging/{key.query}-{key.batch}-{first}"
        shaped(self._spark, first, results, self._schema).coalesce(1).write.format(self._format).options(
            **self._options
        ).mode("overwrite").save(aside)
        (written,) = [name for name in self._files.names(aside) if name.startswith("part-")]
        suffix = written[written.index(".") :]
        self._files.move(f"{aside}/{written}", self._folder(key), part_name(first, len(results)) + suffix)
        self._files.remove(aside)

    def _folder(self, key: Key) -> str:
        return f"{self._root}/query={key.query}/batch={key.batch}"


def part_name(first: int, count: int) -> str:
    return f"part-{first:09d}-{first + count - 1:09d}"


def covered(names: Sequence[str]) -> int:
    """Rows from 0 on that parts of these names hold without a gap."""
    spans = sorted((int(match[1]), int(match[2])) for name in names if (match := PART.match(name)))
    until = 0
    for first, last in spans:
        if first > until:
            break
        until = max(until, last + 1)
    return until


def shaped(spark: Any, first: int, results: Sequence[str], schema: str | None) -> Any:
    """A DataFrame of results: ``row``, ``error``, ``value`` as JSON or in the columns of ``schema``, and ``part``."""
    from pyspark.sql import functions as f

    raw = spark.createDataFrame(row_for_each_value(first, results))
    value, error = f.get_json_object("result", "$.value"), f.get_json_object("result", "$.error")
    if schema is None:
        return raw.select("row", error.alias("error"), value.alias("value"), "part")
    return raw.select("row", error.alias("error"), f.from_json(value, schema).alias("value"), "part").select(
        "row", "error", "value.*", "part"
    )


def row_for_each_value(first: int, results: Sequence[str]) -> pa.Table:
    """The results of rows from ``first`` on, with those that are several taken apart."""
    rows: list[tuple[int, int | None, str]] = []
    for row, result in enumerate(results, first):
        if result.startswith(SEVERAL):
            values = json.loads(result)["values"]
            rows += [(row, part, json.dumps({"value": each}, ensure_ascii=False)) for part, each in enumerate(values)]
        else:
            rows.append((row, None, result))
    columns = zip(*rows, strict=True) if rows else ([], [], [])
    return pa.Table.from_arrays([pa.array(c, kind) for c, kind in zip(columns, ROWS.types, strict=True)], schema=ROWS)


class Files:
    """The part of a Hadoop file system that we need, so that a path may be any that Spark takes."""

    def __init__(self, spark: Any, root: str) -> None:
        self._path = spark._jvm.org.apache.hadoop.fs.Path
        self._system = self._path(root).getFileSystem(spark._jsc.hadoopConfiguration())

    def names(self, folder: str) -> list[str]:
        place = self._path(folder)
        return [str(each.getPath().getName()) for each in self._system.listStatus(place)] if self._is(place) else []

    def move(self, before: str, folder: str, name: str) -> None:
        """Raises: OSError when it is refused."""
        self._system.mkdirs(self._path(folder))
        if not self._system.rename(self._path(before), self._path(f"{folder}/{name}")):
            raise OSError(f"cannot move {before!r} to {folder}/{name}")

    def remove(self, folder: str) -> None:
        self._system.delete(self._path(folder), True)

    def _is(self, place: Any) -> bool:
        return bool(self._system.exists(place))
