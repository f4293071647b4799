"""Run an app's stages over a table, as a Spark job: the results that the stream would have given, range by range.

The range is cut into chunks once, and the cuts are stored beside the results with the snapshot of the table that they
were made of. Each chunk is one commit to the table of results: an interrupted job goes on with the chunks that are
missing, and a chunk is there as a whole or not at all.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa

from compositions.errors import RecomposeError
from datapipe.spark.delta import Batches, TableKind, append, frame_of
from datapipe.spark.query import ROWS, as_json, row_for_each_value, shaped

Work = Callable[[Sequence[str]], Sequence[str]]
"""From rows as JSON to their results as JSON, one each; sent to the executors."""
CHUNK_ROWS = 100_000
CHUNKS_AT_ONCE = 2
"""Jobs at a time: while one ends and is committed, the cores work on the next."""
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
    results = _Results(rows, of, work, into)
    bounds = [None, *cuts.at, None]
    added = 0
    with ThreadPoolExecutor(CHUNKS_AT_ONCE) as pool:
        chunks = [
            pool.submit(results.put, begin, end, f"{of.name}-{number}")
            for number, (begin, end) in enumerate(pairwise(bounds))
        ]
        try:
            for number, chunk in enumerate(chunks):
                tell(number, len(chunks))
                added += chunk.result()
        finally:
            pool.shutdown(cancel_futures=True)
    tell(len(chunks), len(chunks))
    return added


class _Results:
    """The table of results, made of chunks of rows. Executors compute a file of results and write it, in one pass."""

    def __init__(self, rows: Any, of: Range, work: Work, into: Into) -> None:
        from pyspark.sql.pandas.types import to_arrow_schema

        key = to_arrow_schema(rows.select(of.by).schema, timezone="UTC").field(0).type
        self._rows, self._by, self._tasks = rows, of.by, 2 * int(rows.sparkSession.sparkContext.defaultParallelism)
        self._work = partial(_computed, work, key, {"app": of.app, "app_version": of.version})
        self._plain = ROWS.set(0, pa.field("row", key))
        for name in ("app", "app_version"):
            self._plain = self._plain.append(pa.field(name, pa.string()))
        self._schema = into.schema
        named = shaped(rows.sparkSession.createDataFrame([], _spark(self._plain)), into.schema)
        self._kind = TableKind(into.folder, to_arrow_schema(named.schema, timezone="UTC"), ("app",))
        self._kind.opened()  # made here: chunks that are committed at the same time would both make it

    def put(self, begin: str | None, end: str | None, name: str) -> int:
        """Add the results of the chunk between two cuts, if the table lacks them; return how many were added."""
        from pyspark.sql import functions as F

        chunk = _between(self._rows, self._by, begin, end)
        texts = chunk.select(F.col(self._by).alias("row"), as_json().alias("text")).repartition(self._tasks, "text")
        if self._schema is None:
            return append(texts, self._kind, (name, 0), work=self._work)
        rows = texts.mapInArrow(self._work, _spark(self._plain))
        return append(shaped(rows, self._schema), self._kind, (name, 0), work=iter)


def _spark(schema: pa.Schema) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema, prefer_timestamp_ntz=False)


def _computed(work: Work, key: pa.DataType, named: Mapping[str, Any], batches: Batches) -> Batches:
    """Yield the results of rows, a batch for each batch. Runs in an executor."""
    for batch in batches:
        texts = batch.column("text").to_pylist()
        told = [each for at in range(0, len(texts), TURN_ROWS) for each in work(texts[at : at + TURN_ROWS])]
        rows = row_for_each_value(batch.column("row").to_pylist(), told, key)
        for name, value in named.items():
            column = pa.array([value], pa.string()).take(pa.array([0] * len(rows)))
            rows = rows.append_column(name, column)
        yield rows


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
