"""Keep tables of Parquet files with snapshots: executors write the files, the driver commits their names.

The tables are Delta tables, kept by delta-rs (``deltalake``), so that they are read without Spark as well. A commit
carries the number of the batch that it belongs to: a batch that comes again after a crash is committed once. Files that
were never committed belong to no snapshot, and ``tidy`` removes them.
"""

import json
import os
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from time import time
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.transaction import AddAction, RemoveAction

ADDED = pa.schema([("path", pa.string()), ("values", pa.string()), ("rows", pa.int64()), ("bytes", pa.int64())])
"""Schema of one row per file that an executor wrote; ``values``: of the partition columns, as JSON."""
CONFIGURATION = {"delta.logRetentionDuration": "interval 1 day", "delta.checkpointInterval": "50"}
TARGET_BYTES = 128 * 2**20
"""Size up to which small files of one partition are merged."""
SMALL_FILES = 3
"""Minimum number of small files of one partition to merge."""
UNREAD_H = 6
"""Hours for which a file that the latest snapshot lacks is kept for readers of earlier snapshots."""


@dataclass(frozen=True, slots=True)
class TableKind:
    """The place and form of a table."""

    folder: Path
    schema: pa.Schema
    partition_by: tuple[str, ...] = ("date", "app")

    def opened(self) -> DeltaTable:
        """Return the table's latest snapshot; one without rows where there is none, with columns that are new."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not DeltaTable.is_deltatable(str(self.folder)):
            options: Any = {"partition_by": list(self.partition_by), "configuration": CONFIGURATION}
            return DeltaTable.create(str(self.folder), self.schema, mode="ignore", **options)
        table = DeltaTable(str(self.folder))
        known = {field.name for field in table.schema().fields}
        if missing := [field for field in Schema.from_arrow(self.schema).fields if field.name not in known]:
            table.alter.add_columns(missing)
        return table


Batches = Iterator[pa.RecordBatch]


def append(frame: Any, kind: TableKind, batch: tuple[str, int], mode: str = "append") -> int:
    """Add the rows of a Spark DataFrame, or replace all others by them; return how many. Rows of a ``batch`` (the name
    of a stream, a number that grows) that is in the table are not added again, but computed: Spark ends a query whose
    state does not take part in each batch. There is one file for each value of the partition columns."""
    from pyspark.sql.pandas.types import from_arrow_schema

    done = kind.opened().transaction_version(batch[0])
    if done is not None and done >= batch[1]:
        frame.write.format("noop").mode("overwrite").save()
        return 0
    rows = frame.select(*kind.schema.names).repartition(*kind.partition_by)
    written = rows.mapInArrow(partial(write_files, kind), from_arrow_schema(ADDED)).collect()
    if written or mode == "overwrite":
        commit(kind, [row.asDict() for row in written], batch, mode)
    return sum(row["rows"] for row in written)


def commit(kind: TableKind, written: Sequence[Mapping[str, Any]], batch: tuple[str, int], mode: str = "append") -> None:
    """Make files part of the table, all at once. ``written``: rows of ``ADDED``."""
    now_ms = round(time() * 1000)
    adds: list[AddAction | RemoveAction] = [
        AddAction(
            row["path"], row["bytes"], json.loads(row["values"]), now_ms, True, json.dumps({"numRecords": row["rows"]})
        )
        for row in written
    ]
    once = CommitProperties(app_transactions=[Transaction(*batch)])
    table = kind.opened()
    table.create_write_transaction(adds, mode, table.schema(), list(kind.partition_by), commit_properties=once)


def write_files(kind: TableKind, batches: Batches) -> Batches:
    """Write rows into a file for each value of the partition columns; yield ``ADDED``. Runs in an executor."""
    writers: dict[str, tuple[str, Any]] = {}
    counts: dict[str, int] = {}
    inside = pa.schema([field for field in kind.schema if field.name not in kind.partition_by])
    for batch in batches:
        for values, rows in _parted(pa.Table.from_batches([batch]), kind.partition_by):
            if values not in writers:
                writers[values] = _new_file(kind, json.loads(values), inside)
            writers[values][1].write_table(rows.select(inside.names).cast(inside))
            counts[values] = counts.get(values, 0) + rows.num_rows
    found = []
    for values, (path, writer) in writers.items():
        writer.close()
        found.append((path, values, counts[values], os.path.getsize(kind.folder / path)))
    columns = zip(*found, strict=True) if found else [()] * len(ADDED)
    yield pa.RecordBatch.from_arrays([pa.array(c, t) for c, t in zip(columns, ADDED.types, strict=True)], schema=ADDED)


def _parted(rows: pa.Table, names: Sequence[str]) -> Iterator[tuple[str, pa.Table]]:
    for values in rows.select(names).group_by(list(names)).aggregate([]).to_pylist():
        mine = rows
        for name, value in values.items():
            mine = mine.filter(pc.equal(mine[name], pa.scalar(value, mine.schema.field(name).type)))
        yield json.dumps({name: str(value) for name, value in values.items()}), mine


def _new_file(kind: TableKind, values: Mapping[str, str], inside: pa.Schema) -> tuple[str, Any]:
    path = "/".join([*(f"{name}={value}" for name, value in values.items()), f"part-{uuid.uuid4().hex}.parquet"])
    (kind.folder / path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path, pq.ParquetWriter(kind.folder / path, inside, compression="zstd")


# --- reading and keeping ----------------------------------------------------------------------------------------------


def frame_of(spark: Any, folder: Path, version: int | None = None) -> Any:
    """Return a snapshot as a Spark DataFrame, which later writes and compaction do not change."""
    from pyspark.sql.pandas.types import from_arrow_schema

    table = DeltaTable(str(folder), version=version)
    schema = from_arrow_schema(pa.schema(table.schema().to_arrow()), prefer_timestamp_ntz=False)
    files = table.file_uris()
    if not files:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).option("basePath", str(folder)).parquet(*files)


def tidy(folder: Path, keep_days: float, today: date) -> dict[str, int]:
    """Merge small files, drop days beyond ``keep_days``, and remove files that no snapshot of the last hours has."""
    table = DeltaTable(str(folder))
    if table.schema().fields and any(field.name == "date" for field in table.schema().fields):
        oldest = today - timedelta(days=keep_days)
        if any(each["date"] < str(oldest) for each in table.partitions()):
            table.delete(f"date < '{oldest}'")
    before = len(table.file_uris())
    if _crowded(table):  # all partitions in one commit
        table.optimize.compact(target_size=TARGET_BYTES)
    removed = table.vacuum(UNREAD_H, dry_run=False, enforce_retention_duration=False, full=True)
    return {"files_before": before, "files": len(table.file_uris()), "removed": len(removed)}


def _crowded(table: DeltaTable) -> bool:
    """Return whether a partition has several files below half of the target's size."""
    adds = pa.table(table.get_add_actions(flatten=False)).to_pylist()
    small = (each["partition"] for each in adds if each["size_bytes"] < TARGET_BYTES // 2)
    files = Counter(json.dumps(partition, default=str) for partition in small)
    return max(files.values(), default=0) >= SMALL_FILES
