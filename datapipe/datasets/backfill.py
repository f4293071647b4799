"""Run an app's stages over a table, as a Spark job: the same results as the stream would give, range by range.

The row groups of the table's files are divided into chunks by their numbers of rows alone, and the snapshot of the
table is stored beside the results. An executor reads a chunk, computes its results and writes their file; Spark only
assigns chunks, again if an executor dies. Each chunk is one atomic commit to the table of results, so an interrupted
job continues with the missing chunks.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.types as t
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from compositions.errors import RecomposeError
from datapipe.datasets.json_rows import json_rows
from datapipe.spark.delta import ADDED, Batches, TableKind, commit, write_files
from datapipe.spark.query import ROWS, row_for_each_value, shaped

Work = Callable[[Sequence[Any]], Sequence[str]]
"""A function from rows, as parsed JSON, to a result for each, as JSON; it is sent to the executors."""
Chunk = Sequence[tuple[ds.Fragment, int, int]]
"""Row groups, each with the range of rows to use."""
CHUNK_ROWS = 50_000
BATCH_ROWS = 10_000
"""Number of rows whose results are in memory at a time, and rows per row group of results."""
TURN_ROWS = 512
"""Number of rows that the stages get at a time."""
PLAN = "backfill.json"
FORMAT = ds.ParquetFileFormat(coerce_int96_timestamp_unit="us")


@dataclass(frozen=True, slots=True)
class Range:
    """Rows of ``table`` whose column ``by`` is at least ``begin`` and below ``end`` (None: no bound). ``app`` and
    ``version``: the app that computes the results, and the version of its source."""

    table: str
    by: str
    begin: str | None
    end: str | None
    app: str
    version: str | None

    @property
    def name(self) -> str:
        return "backfill-" + sha256(json.dumps(asdict(self)).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Into:
    """The folder of the table of results; ``schema`` of a result as DDL, ``None``: as JSON; rows of a chunk, before
    those outside the range are left out, when the range is cut for the first time."""

    folder: Path
    schema: str | None = None
    chunk_rows: int = CHUNK_ROWS


def backfill(spark: Any, of: Range, work: Work, into: Into, tell: Callable[[int, int], None]) -> int:
    """Compute the results of all rows in the range; return the number of results that this call added. ``tell`` gets
    chunks done, chunks in all.

    Raises: RecomposeError for a table that cannot be read, has no such column, or changed since the first call.
    """
    table, chunk_rows = _begun(of, into)
    where = _where(of, table.schema)
    chunks = list(_chunks(table, where, chunk_rows))
    results = _Results(spark, _Reading(table.schema, where, of, work), into)
    with ThreadPoolExecutor(spark.sparkContext.defaultParallelism + 1) as pool:  # one more is ready when one ends
        known = results.kind.opened()
        names = (f"{of.name}-{number}" for number in range(len(chunks)))
        left = {name: c for name, c in zip(names, chunks, strict=True) if known.transaction_version(name) is None}
        running = {pool.submit(results.written, chunk): name for name, chunk in left.items()}
        added = 0
        try:
            for ended, chunk in enumerate(as_completed(running), start=len(chunks) - len(left)):
                tell(ended, len(chunks))
                written = chunk.result()
                commit(results.kind, written, (running[chunk], 0))
                added += sum(row["rows"] for row in written)
        finally:
            pool.shutdown(cancel_futures=True)
    tell(len(chunks), len(chunks))
    return added


@dataclass(frozen=True, slots=True)
class _Reading:
    """The work of an executor: from a chunk of a table with this schema to results."""

    schema: pa.Schema
    where: Any
    of: Range
    work: Work

    @property
    def results(self) -> pa.Schema:
        """Return the columns of the results, with JSON in ``value``."""
        key = self.schema.field(self.of.by).type
        if t.is_timestamp(key):
            key = pa.timestamp("us", key.tz and "UTC")
        named = [pa.field(name, pa.string()) for name in ("app", "app_version")]
        return pa.schema([pa.field("row", key), *list(ROWS)[1:], *named])

    def __call__(self, chunk: Chunk, _: object = None) -> Batches:
        """Yield the results of the chunk's rows."""
        schema = self.results
        for batch in _rows(self, chunk):
            items = json_rows(batch)
            told = [each for at in range(0, len(items), TURN_ROWS) for each in self.work(items[at : at + TURN_ROWS])]
            keys = batch.column(self.of.by).cast(schema.field(0).type, safe=False).to_pylist()
            rows = row_for_each_value(keys, told, schema.field(0).type)
            for name, value in (("app", self.of.app), ("app_version", self.of.version)):
                rows = rows.append_column(name, pa.repeat(pa.scalar(value, pa.string()), rows.num_rows))
            yield rows

    def into(self, kind: TableKind, chunks: Iterator[Chunk]) -> list[dict[str, Any]]:
        """Write the results of chunks, a file for each; return ``ADDED``."""
        return [row for chunk in chunks for batch in write_files(kind, self(chunk)) for row in batch.to_pylist()]


class _Results:
    """The table of results."""

    def __init__(self, spark: Any, reading: _Reading, into: Into) -> None:
        from pyspark.sql.pandas.types import to_arrow_schema

        self._spark, self._reading, self._schema = spark, reading, into.schema
        schema = reading.results
        if into.schema is not None:
            rows = shaped(spark.createDataFrame([], _spark(schema)), into.schema)
            schema = to_arrow_schema(rows.schema, timezone="UTC")
        self.kind = TableKind(into.folder, schema, ("app",))

    def written(self, chunk: Chunk) -> list[dict[str, Any]]:
        """Have the files of a chunk's results written; return ``ADDED``."""
        if self._schema is None:  # Spark's SQL takes seconds to start, and has nothing to do here
            one = self._spark.sparkContext.parallelize([chunk], 1)
            return list(one.mapPartitions(partial(self._reading.into, self.kind)).collect())
        one = self._spark.range(1, numPartitions=1)
        rows = one.mapInArrow(partial(self._reading, chunk), _spark(self._reading.results))
        files = shaped(rows, self._schema).mapInArrow(partial(write_files, self.kind), _spark(ADDED))
        return [row.asDict() for row in files.collect()]


def _spark(schema: pa.Schema) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema, prefer_timestamp_ntz=False)


# --- the range --------------------------------------------------------------------------------------------------------


def _rows(of: _Reading, chunk: Chunk) -> Batches:
    """Yield the chunk's rows that are in the range."""
    for group, first, last in chunk:
        at = 0
        for batch in group.to_batches(schema=of.schema, batch_size=BATCH_ROWS, use_threads=False):
            mine = batch.slice(min(max(first - at, 0), batch.num_rows), last - max(at, first))
            yield mine if of.where is None else mine.filter(of.where)
            if (at := at + batch.num_rows) >= last:
                break


def _chunks(table: ds.Dataset, where: Any, chunk_rows: int) -> Iterator[Chunk]:
    """Yield chunks of the row groups that may have rows in the range, the same ones in each call."""
    chunk: list[tuple[ds.Fragment, int, int]] = []
    room = chunk_rows
    for file in sorted(table.get_fragments(where), key=lambda fragment: fragment.path):
        for group in file.split_by_row_group(where, schema=table.schema):
            (count,) = [info.num_rows for info in group.row_groups]
            first = 0
            while first < count:
                last = min(first + room, count)
                chunk.append((group, first, last))
                room, first = room - (last - first), last
                if not room:
                    yield chunk
                    chunk, room = [], chunk_rows
    if chunk:
        yield chunk


def column_of(table: str) -> str:
    """Return the default column of ranges: the table's only timestamp column, or without any its only integer column.
    Raises: RecomposeError if there is none, or several."""
    schema = _table(table, None)[0].schema
    found: list[str] = [field.name for field in schema if t.is_temporal(field.type)]
    found = found or [field.name for field in schema if t.is_integer(field.type)]
    if len(found) != 1:
        raise RecomposeError(f"table {table!r} has the columns {', '.join(schema.names)}; name one of them with --by")
    return found[0]


def _where(of: Range, schema: pa.Schema) -> Any:
    """Return the condition on the column, ``None`` without bounds. Raises: RecomposeError."""
    if of.by not in schema.names:
        raise RecomposeError(f"table {of.table!r} has no column {of.by!r}; it has {', '.join(schema.names)}")
    json_rows(pa.RecordBatch.from_pylist([], schema))  # refuses types before any work
    kind, column = schema.field(of.by).type, ds.field(of.by)
    conditions = [] if of.begin is None else [column >= _bound(of.begin, kind)]
    conditions += [] if of.end is None else [column < _bound(of.end, kind)]
    return conditions[0] & conditions[-1] if conditions else None


def _bound(text: str, kind: pa.DataType) -> pa.Scalar:
    """Return a bound as a value of the column. Raises: RecomposeError for an invalid text."""
    forms = [kind, pa.timestamp("us")] if t.is_timestamp(kind) else [kind]  # without a zone it is UTC
    for form in forms:
        with suppress(pa.ArrowInvalid):
            return pa.scalar(text).cast(form).cast(kind)
    raise RecomposeError(f"{text!r} is no value of a column of type {kind}")


def _begun(of: Range, into: Into) -> tuple[ds.Dataset, int]:
    """Return the table as the first call with this range saw it, and rows of a chunk. Raises: RecomposeError."""
    file = into.folder.with_name(f"{into.folder.name}.{PLAN}")
    plans: Mapping[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    plan = plans.get(of.name)
    if plan and "chunk_rows" not in plan:
        raise RecomposeError(f"an older Recompose began the backfill into {str(into.folder)!r}; give another --out")
    table, snapshot = _table(of.table, plan and plan["snapshot"])
    files = None if snapshot is not None else _files(table)
    if plan and plan["files"] != files:
        raise RecomposeError(f"the files of {of.table!r} have changed since the backfill began; give another --out")
    if not plan:
        plan = {"range": asdict(of), "snapshot": snapshot, "files": files, "chunk_rows": into.chunk_rows}
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_name(f".{file.name}.draft")
        draft.write_text(json.dumps({**plans, of.name: plan}, indent=1))
        os.replace(draft, file)
    return table, plan["chunk_rows"]


def _table(place: str, snapshot: int | None) -> tuple[ds.Dataset, int | None]:
    """Return a table and its snapshot (None for plain Parquet files). Raises: RecomposeError."""
    try:
        if (Path(place) / "_delta_log").is_dir():
            table = DeltaTable(place, version=snapshot)
            return table.to_pyarrow_dataset(), table.version()
        found = ds.dataset(place, format=FORMAT, partitioning=ds.HivePartitioning.discover(infer_dictionary=True))
        schema, folders = _typed(found)
        return ds.dataset(place, schema, FORMAT, partitioning=folders), None
    except (DeltaError, pa.ArrowException, OSError) as error:
        raise RecomposeError(f"table {place!r} cannot be read: {str(error).splitlines()[0][:200]}") from error


def _typed(found: ds.Dataset) -> tuple[pa.Schema, ds.Partitioning]:
    """Return the schema of plain files, and that of their folders' names, with the types that Spark reads them with."""
    folders = found.partitioning
    named = zip(folders.schema.names, folders.dictionaries, strict=True)
    inferred = {name: _type_of(values) for name, values in named if values is not None}
    schema = pa.schema([(each.name, inferred.get(each.name, each.type)) for each in found.schema])
    for file in islice(found.get_fragments(), 1):
        columns = file.metadata.schema
        for column in map(columns.column, range(len(columns))):
            if column.physical_type == "INT96":  # Spark's own form of a point in time
                place = schema.get_field_index(column.path.split(".")[0])
                schema = schema.set(place, pa.field(schema.names[place], _in_utc(schema.types[place])))
    return schema, ds.partitioning(pa.schema(list(inferred.items())), flavor="hive")


def _in_utc(kind: pa.DataType) -> pa.DataType:
    if t.is_timestamp(kind):
        return pa.timestamp("us", "UTC")
    if t.is_struct(kind):
        return pa.struct([(field.name, _in_utc(field.type)) for field in kind])
    if t.is_map(kind):
        return pa.map_(kind.key_type, _in_utc(kind.item_type))
    return pa.list_(_in_utc(kind.value_type)) if t.is_list(kind) else kind


def _type_of(names: pa.Array) -> pa.DataType:
    for kind in (pa.int32(), pa.int64(), pa.float64(), pa.date32()):
        with suppress(pa.ArrowInvalid):
            names.cast(pa.string()).cast(kind)
            return kind
    return pa.string()


def _files(table: ds.FileSystemDataset) -> str:
    """Return the names and sizes of the files, in short."""
    found = [(file, os.path.getsize(file)) for file in sorted(table.files)]
    return sha256(json.dumps(found).encode()).hexdigest()[:16]
