"""Keep the tables up to date while runners write: one streaming query for each kind of record, and one for the windows.

Layout: ``OUT/<kind>`` and ``OUT/windows``, Delta tables with a partition for each date (UTC) and app;
``OUT/checkpoint/<name>``: the progress of each query. Exactly once: offsets and state are in the checkpoint, and a
batch that was written but not recorded there comes again under the same number, which the table recognises.
"""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from datapipe.spark.delta import TableKind, append, tidy
from datapipe.telemetry.schema import INSTANT_OF, SCHEMAS, SUFFIX
from datapipe.telemetry.store import CHECKPOINT, TABLE, TelemetryError, some_files_of
from datapipe.telemetry.windows import BATCH, batch_table, live_table

TRIGGER_S = 30.0
"""Interval of micro-batches. Each writes a file per app and table; shorter intervals need a core for Spark alone."""
FILES_A_TURN = 1000
TIDY_EVERY_S = 600.0
KEEP_DAYS: Mapping[str, float] = {"items": 14, "snapshots": 90}
"""Days for which records are kept; ``KEPT_DAYS`` for all others."""
KEPT_DAYS = 400.0


def spark_schema(kind: str) -> Any:
    return from_arrow_schema(SCHEMAS[kind], prefer_timestamp_ntz=False)


def raw(spark: SparkSession, directory: Path, kind: str = "items") -> DataFrame:
    """Return all records of one kind, from the runners' files. Raises: TelemetryError."""
    some_files_of(directory, kind)
    return spark.read.schema(spark_schema(kind)).parquet(str(directory / kind))


def live(spark: SparkSession, directory: Path, kind: str = "items", files_a_turn: int = FILES_A_TURN) -> DataFrame:
    """Return a streaming DataFrame of the records of one kind, the oldest files first."""
    reader = spark.readStream.schema(spark_schema(kind)).option("pathGlobFilter", f"*{SUFFIX}")
    return reader.option("maxFilesPerTrigger", files_a_turn).parquet(str(directory / kind))


def put(rows: DataFrame, out: Path, name: str, batch: tuple[str, int], mode: str = "append") -> int:
    """Add rows to a table, in the partitions of their dates."""
    instant = "start" if name == TABLE else INSTANT_OF[name]
    dated = rows.withColumn("date", F.to_date(instant))
    schema = to_arrow_schema(dated.schema, timezone="UTC")
    known = SCHEMAS.get(name, schema)
    fields = [known.field(field.name) if field.name in known.names else field for field in schema]
    return append(dated, TableKind(out / name, pa.schema(fields)), batch, mode)


def put_whole(items: DataFrame, out: Path) -> None:
    """Replace the table of windows by the windows of these records, in one commit."""
    rows = batch_table(items).withColumn(BATCH, F.lit(0).cast("bigint"))
    put(rows, out, TABLE, ("batch", round(datetime.now(UTC).timestamp() * 1e6)), "overwrite")


def start(rows: DataFrame, out: Path, name: str = TABLE, *, trigger_s: float = TRIGGER_S, once: bool = False) -> Any:
    """Start the query that fills a table; ``once``: it ends when all present files have been read."""
    folder = out / name
    if folder.exists() and any(folder.iterdir()) and not (folder / "_delta_log").is_dir():
        raise TelemetryError(f"{str(folder)!r} was made by an older Recompose; remove it, so that it is made again")
    checkpoint = out / CHECKPOINT / name
    wanted = live_table(rows) if name == TABLE else rows

    def batch(frame: DataFrame, number: int) -> None:
        stream = json.loads((checkpoint / "metadata").read_text())["id"]
        numbered = frame.withColumn(BATCH, F.lit(number).cast("bigint")) if name == TABLE else frame
        put(numbered, out, name, (stream, number))

    writer = wanted.writeStream.outputMode("update" if name == TABLE else "append").foreachBatch(batch)
    trigger: dict[str, Any] = {"availableNow": True} if once else {"processingTime": f"{trigger_s} seconds"}
    return writer.option("checkpointLocation", str(checkpoint)).queryName(name).trigger(**trigger).start()


class LiveTables:
    """Keeps all tables of the telemetry in ``source`` up to date; calls ``tell`` with the state from time to time."""

    def __init__(self, spark: SparkSession, source: Path, out: Path, tell: Callable[[dict[str, Any]], None]) -> None:
        self._spark, self._source, self._out, self._tell = spark, source, out, tell
        self._up_to = datetime.now(UTC)
        self._tidied_s = monotonic()
        self._files: dict[str, int] = {}
        self._queries: dict[str, Any] = {}

    def run(self, *, once: bool, wait: Callable[[], bool]) -> None:
        """Run until the queries have ended, or ``wait``, which pauses for a moment, returns True. Raises:
        StreamingQueryException if a query fails."""
        self._begin(once)
        stopped = False
        while any(query.isActive for query in self._queries.values()):
            self._tell(self.state())
            if stopped := wait():
                break
            if failed := [query for query in self._queries.values() if query.exception() is not None]:
                failed[0].awaitTermination()  # raises what it failed with
            if not once and monotonic() - self._tidied_s > TIDY_EVERY_S:
                self._begin(once)
                self._tidy()
        for query in self._queries.values():
            query.stop() if stopped else query.awaitTermination()
        self._tidy()
        self._tell(self.state())

    def _begin(self, once: bool) -> None:
        """Start the queries of kinds that have files: runners of an earlier version write fewer kinds."""
        for name in (TABLE, *SCHEMAS):
            kind = "items" if name == TABLE else name
            if name not in self._queries and any((self._source / kind).glob(f"*{SUFFIX}")):
                self._queries[name] = start(live(self._spark, self._source, kind), self._out, name, once=once)

    def state(self) -> dict[str, Any]:
        """Return what the queries have done so far; ``up_to``: records of files closed before it are in the tables."""
        recent = {name: query.recentProgress for name, query in self._queries.items()}
        last = {name: each[-1] for name, each in recent.items() if each}
        ended = min((each["timestamp"] for each in last.values()), default=None)
        return {
            "records": sum(each["numInputRows"] for of in recent.values() for each in of),
            "batch": last[TABLE]["batchId"] if TABLE in last else None,
            "batch_ms": last[TABLE]["durationMs"].get("triggerExecution") if TABLE in last else None,
            "up_to": ended,
            "files": self._files,
        }

    def _tidy(self) -> None:
        today = datetime.now(UTC).date()
        folders = [self._out / name for name in (TABLE, *SCHEMAS) if (self._out / name / "_delta_log").is_dir()]
        found = {each.name: tidy(each, KEEP_DAYS.get(each.name, KEPT_DAYS), today) for each in folders}
        self._files = {name: each["files"] for name, each in found.items()}
        self._tidied_s = monotonic()
