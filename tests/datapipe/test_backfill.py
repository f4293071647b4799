"""Backfill: the results of the stream, byte for byte, whoever is killed in between; what it cannot do is refused."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from test_live import APPS, finished, rows_in, spec_of
from test_telemetry_tables import killed_when

from compositions.errors import RecomposeError
from datapipe.datasets.backfill import Into, Range, _begun, column_of
from datapipe.datasets.json_rows import json_rows
from datapipe.spark.query import as_json
from service.schemas.spec import SinkSpec, SourceSpec

ROWS = 4000


def write_table(folder: Path) -> None:
    folder.mkdir()
    numbers = [-1 if n == 70 else n for n in range(ROWS)]
    columns = {"n": pa.array(numbers, pa.int32()), "file": [f"ä{n % 3}" for n in numbers]}
    table = pa.table({**columns, "line": pa.array(range(ROWS), pa.int32())})
    for part in range(4):
        pq.write_table(table.slice(part * ROWS // 4, ROWS // 4), folder / f"{part}.parquet")


def words(tmp_path: Path, *more: str) -> list[str]:
    table = ["--table", str(tmp_path / "in"), "--by", "line", "--out", str(tmp_path / "out"), "--apps", str(APPS)]
    return ["backfill", "passing", *table, *more]


def results(out: Path) -> Counter[tuple[str | None, str | None]]:
    rows = DeltaTable(str(out)).to_pyarrow_table().to_pylist() if (out / "_delta_log").exists() else []
    return Counter((row["value"], row["error"]) for row in rows)


def stream_results(tmp_path: Path) -> Counter[tuple[str | None, str | None]]:
    options = {"schema": "n INT, file STRING, line INT"}
    live = SourceSpec(kind="spark", format="parquet", path=str(tmp_path / "in"), options=options, loop=False)
    sink = SinkSpec(path=str(tmp_path / "table"))
    assert finished(spec_of(source=live, sink=sink)).failure is None
    return Counter((row["value"], row["error"]) for row in rows_in(tmp_path / "table"))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kills", [0, pytest.param(10, marks=pytest.mark.long)])
def test_a_killed_backfill_ends_as_the_stream_does(tmp_path: Path, kills: int, in_session: Callable[..., Any]) -> None:
    out = tmp_path / "out"
    write_table(tmp_path / "in")
    chunks = ["--chunk-rows", str(ROWS // (2 * kills + 2))]
    for _ in range(kills):
        seen = results(out).total()
        killed_when(lambda: results(out).total() > seen, *words(tmp_path, *chunks))  # noqa: B023 - called at once
    assert "results added" in in_session(*words(tmp_path)).stdout
    found = results(out)
    assert found.total() == ROWS
    assert found == stream_results(tmp_path)
    assert found[None, "passing does not accept this row: n is negative"] == 1
    assert ": 0 results added" in in_session(*words(tmp_path)).stdout


def test_without_a_column_the_only_one_of_times_or_of_whole_numbers_is_meant(tmp_path: Path) -> None:
    def written(**columns: Any) -> str:
        file = tmp_path / f"{'-'.join(columns)}.parquet"
        pq.write_table(pa.table({name: pa.array([], kind) for name, kind in columns.items()}), file)
        return str(file)

    assert column_of(written(n=pa.int32(), at=pa.timestamp("us"))) == "at"
    assert column_of(written(n=pa.int64(), name=pa.string())) == "n"
    with pytest.raises(RecomposeError, match="has the columns n, m; name one of them with --by"):
        column_of(written(n=pa.int64(), m=pa.int64()))


def test_a_range_has_its_rows_alone_and_names_what_made_them(tmp_path: Path, in_session: Callable[..., Any]) -> None:
    write_table(tmp_path / "in")
    in_session(*words(tmp_path, "--from", "100", "--to", "103"))
    rows = DeltaTable(str(tmp_path / "out")).to_pyarrow_table().sort_by("row").to_pylist()
    assert [row["row"] for row in rows] == [100, 101, 102]
    assert {row["app"] for row in rows} == {"passing"}
    assert all(len(row["app_version"]) == 12 for row in rows)
    shaped = ["--from", "100", "--to", "101", "--out", str(tmp_path / "shaped"), "--schema", "line INT, label STRING"]
    in_session(*words(tmp_path, *shaped))
    (row,) = DeltaTable(str(tmp_path / "shaped")).to_pyarrow_table().to_pylist()
    assert (row["row"], row["line"], row["error"]) == (100, 100, None)
    no_value = in_session(*words(tmp_path, "--from", "some"), code=1)
    assert "'some' is no value of a column of type int32" in no_value.output
    missing = in_session(*words(tmp_path, "--by", "gone"), code=1)
    assert "has no column 'gone'; it has n, file, line" in missing.output
    assert "keeps state" in in_session("backfill", "tpcxbb_q1", "--table", tmp_path, "--by", "n", code=1).output


BEFORE, AFTER = datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2026, 11, 27, 1, 2, 3, 4)
COLUMNS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int64(), [2**62, -1]),
    (pa.bool_(), [True, False]),
    (pa.float64(), [0.1, 1e300, -0.0, math.inf, -math.inf, 5e-324, 123456789.0]),
    (pa.float32(), [0.1, 1e10, math.inf, 16777216.0]),
    (pa.string(), ["", 'ä"\n\u2028\\', "😀"]),
    (pa.dictionary(pa.int32(), pa.string()), ["a", "b"]),
    (pa.binary(), [b"", b"\0\xff"]),
    (pa.date32(), [date(1, 1, 1), date(9999, 12, 31)]),
    (pa.timestamp("us", "UTC"), [BEFORE, AFTER, datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)]),
    (pa.timestamp("us", "Europe/Berlin"), [BEFORE.replace(tzinfo=UTC), AFTER.replace(tzinfo=UTC)]),
    (pa.timestamp("us"), [BEFORE, AFTER]),
    (pa.decimal128(20, 0), [Decimal(2**62), Decimal(-5)]),
    (pa.decimal128(38, 10), [Decimal("0.0000001"), Decimal("1.5"), Decimal("0"), Decimal("12345678901234567890.5")]),
    (pa.list_(pa.struct([("x", pa.float64()), ("y", pa.list_(pa.string()))])), [[], [None, {"x": 1.5, "y": ["a"]}]]),
    (pa.struct([("t", pa.timestamp("us", "UTC")), ("n", pa.int32())]), [{"t": AFTER, "n": None}]),
    (pa.map_(pa.string(), pa.date32()), [[], [("a", date(2026, 1, 1)), ("b", None)]]),
    (pa.map_(pa.int32(), pa.string()), [[(7, "x")]]),
]  # fmt: skip


def every_type() -> pa.Table:
    cells = [pa.array([None, *(values * 9)[:9]], kind) for kind, values in COLUMNS]
    return pa.table({f"c{number}": column for number, column in enumerate(cells)})


@pytest.mark.parametrize("by_spark", [False, True])
def test_rows_are_those_that_spark_writes_as_json(tmp_path: Path, spark: Any, by_spark: bool) -> None:
    pq.write_table(every_type(), tmp_path / "t.parquet", row_group_size=4)
    frame = spark.read.parquet(str(tmp_path / "t.parquet"))
    if by_spark:  # with times as 96 bits, and columns as names of folders
        folders = "hash(c0) % 3 AS part", "DATE '2026-11-01' + hash(c0) % 2 AS day", "'x=1' AS text"
        frame = frame.selectExpr("*", *folders)
        frame.write.partitionBy("part", "day", "text").parquet(str(tmp_path / "out"))
        frame = spark.read.parquet(str(tmp_path / "out"))
    place = tmp_path / ("out" if by_spark else "t.parquet")
    told = [json.loads(row["row"]) for row in frame.select(as_json().alias("row")).collect()]
    table, _ = _begun(Range(str(place), "c0", None, None, "a", None), Into(tmp_path / "results"))
    found = [row for batch in table.to_batches(batch_size=3) for row in json_rows(batch)]
    assert Counter(map(json.dumps, found)) == Counter(map(json.dumps, told))
