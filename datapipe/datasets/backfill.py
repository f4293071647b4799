"""Run an app's stages over a table, as a Spark job: the results that the stream would have given, range by range.

The range is cut into chunks once, and the cuts are stored beside the results with the snapshot of the table that they
were made of. Each chunk is one commit to the table of results: an interrupted job goes on with the chunks that are
missing, and a chunk is there as a whole or not at all.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa

from compositions.errors import RecomposeError
from datapipe.spark.delta import TableKind, append, frame_of
from datapipe.spark.query import ROWS, as_json, row_for_each_value, shaped

Work = Callable[[Sequence[str]], Sequence[str]]
"""From rows as JSON to their results as JSON, one each; sent to the executors."""
CHUNK_ROWS = 100_000
TURN_ROWS = 512
"""Rows that the stages get at a time."""
PLAN = "backfill.json"


@dataclass(frozen=True, slots=True)
class Range:
    """Rows of ``table`` whose column ``by`` is at least ``begin`` and below ``end``; ``None``: no bound. ``app`` and
    ``version`` name what computes the results, ``version`` of the app's source."""

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
class Cuts:
    """Where the chunks of a range begin, but for the first, as text; and the snapshot of a table that has some."""

    at: tuple[str, ...]
    snapshot: int | None


@dataclass(frozen=True, slots=True)
class Into:
    """The folder of the table of results; ``schema`` of a result as DDL, ``None``: as JSON; rows of a chunk, about,
    when the range is cut for the first time."""

    folder: Path
    schema: str | None = None
    chunk_rows: int = CHUNK_ROWS


def backfill(spark: Any, of: Range, work: Work, into: Into, tell: Callable[[int, int], None]) -> int:
    """Compute the results of all rows in the range; return the number of results that this call added. ``tell`` gets
    chunks done, chunks in all.

    Raises: RecomposeError for a table that cannot be read, has no such column, or changed since the cuts were made.
    """
    cuts = _cuts(spark, of, into.folder, into.chunk_rows)
    rows = _rows(spark, of, cuts.snapshot)
    bounds = [None, *cuts.at, None]
    added = 0
    for number, (begin, end) in enumerate(pairwise(bounds)):
        tell(number, len(bounds) - 1)
        chunk = _between(rows, of.by, begin, end)
        added += _put(chunk, of, work, into, f"{of.name}-{number}")
    tell(len(bounds) - 1, len(bounds) - 1)
    return added


def _put(chunk: Any, of: Range, work: Work, into: Into, name: str) -> int:
    from pyspark.sql import functions as F
    from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

    key = pa.field("row", to_arrow_schema(chunk.select(of.by).schema).field(0).type)
    made = pa.schema([key, *[field for field in ROWS if field.name != "row"]])
    texts = chunk.select(F.col(of.by).alias("row"), as_json().alias("text")).repartition(_tasks(chunk))
    results = texts.mapInArrow(partial(_results, work, made), from_arrow_schema(made, prefer_timestamp_ntz=False))
    named = shaped(results, into.schema).withColumn("app", F.lit(of.app)).withColumn("app_version", F.lit(of.version))
    kind = TableKind(into.folder, to_arrow_schema(named.schema, timezone="UTC"), ("app",))
    return append(named, kind, (name, 0), gather=False)


def _tasks(frame: Any) -> int:
    return 2 * int(frame.sparkSession.sparkContext.defaultParallelism)


def _results(work: Work, made: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for start in range(0, batch.num_rows, TURN_ROWS):
            turn = batch.slice(start, TURN_ROWS)
            told = row_for_each_value(0, work(turn.column("text").to_pylist()))
            keys = turn.column("row").take(told["row"].combine_chunks())
            yield from pa.table([keys.cast(made.field("row").type), told["part"], told["result"]], made).to_batches()


# --- the range --------------------------------------------------------------------------------------------------------


def _rows(spark: Any, of: Range, snapshot: int | None) -> Any:
    from pyspark.errors import PySparkException

    folder = Path(of.table)
    try:
        frame = frame_of(spark, folder, snapshot) if snapshot is not None else spark.read.parquet(of.table)
    except PySparkException as error:
        raise RecomposeError(f"table {of.table!r} cannot be read: {str(error).splitlines()[0][:200]}") from error
    if of.by not in frame.columns:
        raise RecomposeError(f"table {of.table!r} has no column {of.by!r}; it has {', '.join(frame.columns)}")
    return _between(frame, of.by, of.begin, of.end)


def _between(rows: Any, by: str, begin: str | None, end: str | None) -> Any:
    from pyspark.sql import functions as F

    kind = rows.schema[by].dataType
    if begin is not None:
        rows = rows.where(F.col(by) >= F.lit(begin).cast(kind))
    return rows if end is None else rows.where(F.col(by) < F.lit(end).cast(kind))


def _cuts(spark: Any, of: Range, out: Path, chunk_rows: int) -> Cuts:
    """Those of the first call with this range; made now if this is it."""
    file = out.with_name(f"{out.name}.{PLAN}")
    plans: Mapping[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    if of.name in plans:
        known = Cuts(tuple(plans[of.name]["at"]), plans[of.name]["snapshot"])
        if known.snapshot is None and plans[of.name]["files"] != _files(of.table):
            raise RecomposeError(f"the files of {of.table!r} have changed since the backfill began; give another --out")
        return known
    snapshot = _snapshot(Path(of.table))
    cuts = replace(Cuts((), snapshot), at=_cut(_rows(spark, of, snapshot), of.by, chunk_rows))
    entry = {"range": asdict(of), **asdict(cuts), "files": None if snapshot is not None else _files(of.table)}
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}.draft")
    draft.write_text(json.dumps({**plans, of.name: entry}, indent=1))
    os.replace(draft, file)
    return cuts


def _cut(rows: Any, by: str, chunk_rows: int) -> tuple[str, ...]:
    from pyspark.sql import functions as F

    count = rows.count()
    parts = -(-count // chunk_rows)
    shares = [number / parts for number in range(1, parts)]
    if not shares:
        return ()
    found = rows.select(F.percentile_approx(by, shares, 10_000).cast("array<string>").alias("at")).first()["at"]
    return tuple(dict.fromkeys(found))


def _snapshot(folder: Path) -> int | None:
    """The latest of a Delta table; ``None`` for plain Parquet files."""
    from deltalake import DeltaTable

    return DeltaTable(str(folder)).version() if (folder / "_delta_log").is_dir() else None


def _files(table: str) -> str:
    """Names and sizes of the files, in short."""
    place = Path(table)
    found = sorted(place.rglob("*.parquet")) if place.is_dir() else [place]
    return sha256(json.dumps([(str(each), each.stat().st_size) for each in found]).encode()).hexdigest()[:16]
