"""The questions of the documentation are asked of tables that were made of telemetry of two schema versions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from telemetry_records import EPOCH_US, item, write

from datapipe.telemetry.schema import SCHEMAS, VERSION_KEY
from datapipe.telemetry.store import table, views
from datapipe.telemetry.tables import LiveTables
from datapipe.telemetry.writer import write_atomically

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
DOCUMENT = Path(__file__).parents[2] / "docs" / "operate" / "telemetry.md"
QUESTIONS = re.findall(r"\n([^\n]+)\n\n```sql\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
NEW_COLUMNS = ("app_version", "composition_version")


def at(second: float) -> datetime:
    return datetime.fromtimestamp(EPOCH_US / 1e6 + second, UTC)


def put(folder: Path, kind: str, rows: list[dict[str, Any]]) -> None:
    (folder / kind).mkdir(exist_ok=True)
    write_atomically(pa.Table.from_pylist(rows, SCHEMAS[kind]), folder / kind / f"a--r-{len(rows):09d}.parquet")


def write_of_version_1(folder: Path, items: list[dict[str, Any]]) -> None:
    """As a runner of that version wrote them: without the columns that came later."""
    old = pa.schema([field for field in SCHEMAS["items"] if field.name not in NEW_COLUMNS], {VERSION_KEY: b"1"})
    write_atomically(pa.Table.from_pylist(items, old), folder / "items" / "a--old-000001.parquet")


@pytest.fixture(scope="module")
def out(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("telemetry")
    new = [item(n, n * 100_000, 40_000, app_version="v2", composition_version="f") for n in range(100)]
    write(folder, "a--r-001000001", [{**each, "epoch": 1} for each in new])
    write_of_version_1(folder, [item(n, n * 100_000, 20_000) for n in range(50)])
    stages = [
        {"stage": "s", "service_ms": 9.0, "cpu_ms": 8.0, "bottleneck": True},
        {"stage": "t", "service_ms": 1.0, "cpu_ms": 1.0, "bottleneck": False},
    ]
    known = {"app": "a", "run": "r", "epoch": 1}
    put(folder, "snapshots", [{**known, "at": at(n), "composition": "1", "stages": stages} for n in range(5)])
    put(folder, "costs", [{**known, "at": at(10 * n), "worker_s": 20.0, "cpu_s": 10.0} for n in range(9)])
    latency = {"predicted_latency_ms": 100.0, "measured_latency_ms": 110.0}
    shares = {"predicted_in_time": 0.99, "predicted_in_time_at_least": 0.97, "measured_in_time": 0.9}
    candidate = {"name": "2", **latency, **shares}
    early = {**known, "id": 1, "at": at(1), "written": at(1), "body": json.dumps({"candidates": []})}
    put(folder, "decisions", [early, {**early, "written": at(9), "body": json.dumps({"candidates": [candidate]})}])
    LiveTables(spark, folder, folder / "tables", lambda _: None).run(once=True, wait=lambda: False)
    return folder / "tables"


def asked(spark: Any, out: Path, words: str) -> list[dict[str, Any]]:
    (query,) = [query for question, query in QUESTIONS if words in question]
    views(spark, out, query.upper())
    return [row.asDict() for row in spark.sql(query).collect()]


def test_every_question_has_an_answer(spark: Any, out: Path) -> None:
    assert len(QUESTIONS) == 5
    assert all(asked(spark, out, question) for question, _ in QUESTIONS)


def test_the_answers_are_those_of_the_records(spark: Any, out: Path) -> None:
    (cost,) = asked(spark, out, "cost, by day")
    assert (cost["worker_hours"], cost["cpu_hours"]) == (0.05, 0.025)
    assert [(row["stage"], row["share"]) for row in asked(spark, out, "bottleneck")] == [("s", 1), ("t", 0)]
    (calibration,) = asked(spark, out, "predictions")
    assert calibration == {"app": "a", "compared": 1, "median_ratio": 1.1, "median_error": 0.1, "above": 0.0}


def test_records_of_two_schema_versions_lie_in_one_table(spark: Any, out: Path) -> None:
    found = asked(spark, out, "between two versions")
    told = {row["app_version"]: (row["items"], row["latency_ms"]) for row in found}
    assert (len(found), told) == (2, {None: (50, 20.0), "v2": (100, 40.0)})
    items = DeltaTable(str(out / "items")).to_pyarrow_dataset()
    rows = duckdb.sql("SELECT app_version, count(*) FROM items GROUP BY ALL ORDER BY ALL NULLS FIRST").fetchall()
    assert items.count_rows() == 150
    assert rows == [(None, 50), ("v2", 100)]
    assert DeltaTable(str(out / "items")).metadata().partition_columns == ["date", "app"]


@pytest.mark.filterwarnings("ignore:The return type of DataFrame.toJSON")
def test_a_second_run_adds_nothing_and_a_command_asks(spark: Any, out: Path, in_session: Callable[..., Any]) -> None:
    before = table(spark, out, "items").count()
    LiveTables(spark, out.parent, out, lambda _: None).run(once=True, wait=lambda: False)
    assert table(spark, out, "items").count() == before
    told = in_session("telemetry", out.parent, "--sql", "SELECT count(*) n FROM items")
    assert json.loads(told.stdout) == {"n": before}
