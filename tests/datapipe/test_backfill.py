"""Backfill: the results of the stream, byte for byte, whoever is killed in between; what it cannot do is refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from test_live import APPS, finished, rows_in
from test_telemetry_tables import until

from service.schemas.spec import RunSpec, SinkSpec, SourceSpec

ROWS = 4000


def write_table(folder: Path) -> None:
    folder.mkdir()
    numbers = [-1 if n == 70 else n for n in range(ROWS)]
    columns = {"n": pa.array(numbers, pa.int32()), "file": [f"ä{n % 3}" for n in numbers]}
    table = pa.table({**columns, "line": pa.array(range(ROWS), pa.int32())})
    for part in range(4):
        pq.write_table(table.slice(part * ROWS // 4, ROWS // 4), folder / f"{part}.parquet")


def command(tmp_path: Path, *more: str) -> list[str]:
    table = ["--table", str(tmp_path / "in"), "--by", "line", "--out", str(tmp_path / "out"), "--apps", str(APPS)]
    return [sys.executable, "-m", "service.cli", "backfill", "passing", *table, *more]


def results(out: Path) -> Counter[tuple[str | None, str | None]]:
    rows = DeltaTable(str(out)).to_pyarrow_table().to_pylist() if (out / "_delta_log").exists() else []
    return Counter((row["value"], row["error"]) for row in rows)


def stream_results(tmp_path: Path) -> Counter[tuple[str | None, str | None]]:
    options = {"schema": "n INT, file STRING, line INT"}
    live = SourceSpec(kind="spark", format="parquet", path=str(tmp_path / "in"), options=options, loop=False)
    sink = SinkSpec(path=str(tmp_path / "table"))
    assert (
        finished(RunSpec(app="passing", apps_dirs=(str(APPS),), pool="local", source=live, sink=sink)).failure is None
    )
    return Counter((row["value"], row["error"]) for row in rows_in(tmp_path / "table"))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kills", [2, pytest.param(10, marks=pytest.mark.long)])
def test_an_interrupted_backfill_ends_in_the_results_of_the_stream(tmp_path: Path, kills: int) -> None:
    write_table(tmp_path / "in")
    chunks = ["--chunk-rows", str(ROWS // (2 * kills + 2))]
    for _ in range(kills):
        seen = sum(results(tmp_path / "out").values())
        job = subprocess.Popen(command(tmp_path, *chunks), start_new_session=True)
        try:
            until(lambda: sum(results(tmp_path / "out").values()) > seen, job)  # noqa: B023 - called at once
        finally:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()
    ended = subprocess.run(command(tmp_path), check=True, capture_output=True, text=True)
    assert "results added" in ended.stdout
    found = results(tmp_path / "out")
    assert sum(found.values()) == ROWS
    assert found == stream_results(tmp_path)
    assert found[None, "passing does not take this row: n is negative"] == 1
    again = subprocess.run(command(tmp_path), check=True, capture_output=True, text=True)
    assert ": 0 results added" in again.stdout


def test_a_range_has_its_rows_alone_and_names_what_made_them(tmp_path: Path) -> None:
    write_table(tmp_path / "in")
    subprocess.run(command(tmp_path, "--from", "100", "--to", "103"), check=True, capture_output=True)
    rows = DeltaTable(str(tmp_path / "out")).to_pyarrow_table().sort_by("row").to_pylist()
    assert [row["row"] for row in rows] == [100, 101, 102]
    assert {row["app"] for row in rows} == {"passing"}
    assert all(len(row["app_version"]) == 12 for row in rows)
    missing = subprocess.run([*command(tmp_path), "--by", "gone"], check=False, capture_output=True, text=True)
    assert missing.returncode == 1
    assert "has no column 'gone'; it has n, file, line" in missing.stderr


def test_an_app_whose_stages_keep_state_is_refused(tmp_path: Path) -> None:
    options = ["--table", str(tmp_path), "--by", "n"]
    job = [sys.executable, "-m", "service.cli", "backfill", "tpcxbb_q1", *options]
    refused = subprocess.run(job, check=False, capture_output=True, text=True)
    assert refused.returncode == 1
    assert "keeps state" in refused.stderr
