"""Spark as a live source and sink: every row of the input once in the table, whoever is killed in between."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from compositions.errors import RecomposeError
from datapipe.spark.messages import StreamSource
from datapipe.spark.query import as_json, in_order_of_text, keeps_order, streaming_rows
from lab.benchmarks.daemon import Daemon, daemon
from service.runner.rpc.requests import ReadSummary, Start
from service.runner.runner import Runner
from service.schemas.results import Summary
from service.schemas.spec import RunSpec, SinkSpec, SourceSpec

APPS = Path(__file__).parent / "live_apps"
FILES, LINES = 20, 1000
GIVE_UP_S = 240


def write_files(folder: Path, files: int, lines: int) -> None:
    """Column ``n`` is another number in every row."""
    folder.mkdir()
    for file in range(files):
        rows = "".join(f"{file * lines + line},f{file:02d},{line}\n" for line in range(lines))
        (folder / f"f{file:02d}.csv").write_text(rows)


def source(folder: Path, tmp_path: Path, **options: str) -> dict[str, Any]:
    (tmp_path / "shape.sql").write_text("SELECT n, file, line FROM input WHERE n <> 7")
    return {
        "format": "csv",
        "path": str(folder),
        "options": {"schema": "n INT, file STRING, line INT", "maxFilesPerTrigger": "4", **options},
        "transform": str(tmp_path / "shape.sql"),
    }


def rows_in(table: Path) -> list[dict[str, Any]]:
    """In the order of parts, which is that of the rows within a batch."""
    files = sorted(table.glob("query=*/batch=*/part-*.parquet"), key=lambda file: (batch_of(file), file.name))
    return [row for file in files for row in ds.dataset(file, format="parquet").to_table().to_pylist()]


def batch_of(file: Path) -> int:
    return int(file.parent.name.removeprefix("batch="))


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Daemon]:
    (tmp_path / "state").mkdir()
    with daemon(tmp_path / "state", "--apps", str(APPS)) as up:
        yield up


def killed_once_more(up: Daemon, tmp_path: Path, name: str, pid: int | None) -> None:
    """Kills a process, and waits until results arrive again without it."""
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    seen = parts(tmp_path)
    up.wait_for(lambda: parts(tmp_path) > seen, GIVE_UP_S, f"results after the {name} was killed")


def parts(tmp_path: Path) -> int:
    return len(list((tmp_path / "table").glob("query=*/batch=*/part-*.parquet")))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.long  # for every change: tests/unit/test_live_link.py
@pytest.mark.parametrize("dying", ["runner", "driver runner driver"])
def test_rows_arrive_once_in_order_though_driver_and_runner_die(service: Daemon, tmp_path: Path, dying: str) -> None:
    write_files(tmp_path / "in", FILES, LINES)
    live = {"kind": "spark", **source(tmp_path / "in", tmp_path)}
    sink = {"kind": "spark", "path": str(tmp_path / "table")}
    service.send("POST", "/apps/passing/start", {"source": live, "sink": sink})
    service.wait_for(lambda: parts(tmp_path) > 0, GIVE_UP_S, "the first part")
    for name in dying.split():
        status = service.status("passing")
        pid = status["runner_pid"] if name == "runner" else status["spark"]["driver_pid"]
        killed_once_more(service, tmp_path, name, pid)
    service.wait_for(lambda: len(rows_in(tmp_path / "table")) >= FILES * LINES - 1, GIVE_UP_S, "all rows")
    service.send("POST", "/apps/passing/stop", None)

    rows = rows_in(tmp_path / "table")
    assert len(rows) == FILES * LINES - 1
    results = [json.loads(row["value"]) for row in rows]
    assert all(row["label"] == f"{row['file']}:{row['line']}" and row["square"] == row["n"] ** 2 for row in results)
    numbers = [row["n"] for row in results]
    assert sorted(numbers) == [n for n in range(FILES * LINES) if n != 7]
    for file in range(FILES):
        mine = [n for n in numbers if n // LINES == file]
        assert all(before < after for before, after in pairwise(mine)), f"file {file} is out of order"


def finished(spec: RunSpec) -> Summary:
    runner = Runner(spec)
    runner.ask(Start())
    assert runner.wait(GIVE_UP_S), "the run has not ended"
    return runner.ask(ReadSummary())


def spec_of(**more: Any) -> RunSpec:
    return RunSpec(app="passing", apps_dirs=(str(APPS),), pool="local", **more)


def test_a_schema_gives_columns_and_a_row_that_the_app_refuses_is_in_the_table_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("3,a,0\n-1,a,1\n5,a,2\n")
    (tmp_path / "in" / "none.csv").write_text("7,x,0\n")  # a partition of which the transform leaves nothing
    sink = SinkSpec(path=str(tmp_path / "table"), schema="label STRING, square BIGINT")
    live = SourceSpec(kind="spark", loop=False, **source(tmp_path / "in", tmp_path))
    summary = finished(spec_of(source=live, sink=sink))
    assert summary.failure is None
    assert [(row["row"], row["label"], row["square"], row["error"]) for row in rows_in(tmp_path / "table")] == [
        (0, "a:0", 9, None),
        (1, None, None, "passing does not accept this row: n is negative"),
        (2, "a:2", 25, None),
    ]


def test_results_of_any_source_go_into_a_table(tmp_path: Path) -> None:
    sink = SinkSpec(path=str(tmp_path / "table"), format="parquet")
    assert finished(RunSpec(app="synthetic", items=30, pool="local", sink=sink)).failure is None
    assert [row["row"] for row in rows_in(tmp_path / "table")] == list(range(30))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"format": "no_such_format"}, "Spark source 'no_such_format' cannot be read: .*no_such_format"),
        ({"options": {}}, "it needs a schema; give one as the option schema"),
        ({"path": "/no/such/folder"}, "Spark source 'csv' cannot be read: .*no/such/folder"),
        ({"transform": "SELECT nothing FROM input"}, "Spark source 'csv' cannot be read: .*nothing"),
        ({"transform": "SELECT 1 AS n"}, "must select from input"),
    ],
)
def test_what_spark_refuses_is_a_sentence(spark: Any, tmp_path: Path, changes: dict[str, str], sentence: str) -> None:
    write_files(tmp_path / "in", 1, 1)
    fields = source(tmp_path / "in", tmp_path) | {"transform": "SELECT * FROM input"} | changes
    with pytest.raises(RecomposeError, match=sentence) as caught:
        streaming_rows(spark, StreamSource(**fields))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("SELECT n FROM input WHERE rand() < 0.5", r"rand\("),
        ("SELECT n, rand(7) AS r FROM input", r"rand\(7\)"),
        ("SELECT n, uuid() AS id FROM input", r"uuid\("),
        ("SELECT n, monotonically_increasing_id() AS id FROM input", "monotonically_increasing_id"),
        ("SELECT n FROM input TABLESAMPLE (50 PERCENT)", "Sample"),
        ("SELECT n FROM input LIMIT 10", "Limit"),
    ],
)
def test_a_transform_with_other_rows_each_time_is_refused(spark: Any, tmp_path: Path, sql: str, what: str) -> None:
    write_files(tmp_path / "in", 1, 1)
    sentence = rf"the transform of the Spark source uses .*{what}.* gives other rows when a batch is computed again"
    with pytest.raises(RecomposeError, match=sentence):
        streaming_rows(spark, StreamSource(**source(tmp_path / "in", tmp_path) | {"transform": sql}))


@pytest.mark.parametrize(
    ("sql", "kept"),
    [
        ("SELECT n, upper(file) AS name FROM input WHERE n > 1 AND line IS NOT NULL", True),
        ("SELECT n, explode(split(file, 'f')) AS part FROM input", True),
        ("SELECT n FROM input UNION ALL SELECT line FROM input", True),
        ("SELECT n, input_file_name() AS file, current_timestamp() AS at FROM input", True),
        ("SELECT /*+ REPARTITION(8) */ n FROM input", False),
        ("SELECT DISTINCT n FROM input", False),
        ("SELECT n, label FROM input JOIN (VALUES (0, 'zero'), (1, 'one')) AS names(id, label) ON n = id", False),
        ("SELECT n FROM input WHERE n IN (SELECT * FROM VALUES (0), (1))", False),
    ],
)
def test_a_transform_that_shuffles_is_known(spark: Any, tmp_path: Path, sql: str, kept: bool) -> None:
    write_files(tmp_path / "in", 1, 1)
    frame = streaming_rows(spark, StreamSource(**source(tmp_path / "in", tmp_path) | {"transform": sql}))
    assert keeps_order(frame) is kept


def texts_of(frame: Any) -> list[str]:
    return [row["row"] for row in frame.select(as_json().alias("row")).collect()]


def test_rows_that_were_shuffled_have_the_same_numbers_each_time(spark: Any) -> None:
    rows = [(n % 50, f"é{n}") for n in range(200)]
    first = spark.createDataFrame(rows, "n INT, text STRING").repartition(3)
    again = spark.createDataFrame(rows[::-1], "n INT, text STRING").repartition(7)
    assert texts_of(first) != texts_of(again)
    texts = texts_of(in_order_of_text(first))
    assert texts == texts_of(in_order_of_text(again))
    assert len(texts) == 200
