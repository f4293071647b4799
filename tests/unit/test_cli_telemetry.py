"""``recompose telemetry`` and ``recompose report`` given what they cannot use: a sentence, exit 1, nothing written."""

import os
import time
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from datapipe.telemetry.schema import SCHEMAS
from datapipe.telemetry.writer import write_atomically
from service.cli import main


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """One good file without rows."""
    for kind in ("items", "snapshots"):
        (tmp_path / kind).mkdir()
        write_atomically(SCHEMAS[kind].empty_table(), tmp_path / kind / "a--r-000001.parquet")
    return tmp_path


def refused(result: Result, sentence: str) -> None:
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ")
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("mode", [[], ["--batch"], ["--once"]])
def test_a_folder_that_does_not_exist(tmp_path: Path, mode: list[str]) -> None:
    refused(CliRunner().invoke(main, ["telemetry", str(tmp_path / "gone"), *mode]), "there is no folder")
    assert os.listdir(tmp_path) == []


def test_an_empty_folder(tmp_path: Path) -> None:
    refused(CliRunner().invoke(main, ["telemetry", str(tmp_path)]), "has no telemetry")
    assert os.listdir(tmp_path) == []


def test_a_job_waits_for_the_first_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def written(_: float) -> None:
        (tmp_path / "items").mkdir()
        (tmp_path / "items" / "b--r-000001.parquet").write_bytes(b"PAR1")

    monkeypatch.setattr(time, "sleep", written)
    refused(CliRunner().invoke(main, ["telemetry", str(tmp_path), "--wait"]), "is not a readable Parquet file")


def test_a_corrupt_file(source: Path) -> None:
    (source / "items" / "b--r-000001.parquet").write_bytes(b"PAR1")
    refused(CliRunner().invoke(main, ["telemetry", str(source), "--batch"]), "is not a readable Parquet file")
    assert sorted(os.listdir(source)) == ["items", "snapshots"]


def test_no_java(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(source))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    refused(CliRunner().invoke(main, ["telemetry", str(source), "--batch"]), "Spark needs Java 17 or 21")
    assert sorted(os.listdir(source)) == ["items", "snapshots"]


@pytest.mark.parametrize("master", ["spark://127.0.0.1:1", "spark://nowhere"])
def test_a_master_that_cannot_be_reached(source: Path, master: str) -> None:
    refused(CliRunner().invoke(main, ["telemetry", str(source), "--batch", "--master", master]), "cannot be reached")
    assert sorted(os.listdir(source)) == ["items", "snapshots"]


def test_a_report_of_an_app_or_a_period_without_records(source: Path) -> None:
    out = source / "report.html"
    result = CliRunner().invoke(main, ["report", "ferret", "--from", str(source), "--out", str(out)])
    refused(result, "no telemetry of 'ferret' in that period")
    assert "there is some of a" in result.stderr
    assert not out.exists()


def test_a_report_that_cannot_be_written(source: Path) -> None:
    kind = "snapshots"
    row = {"app": "a", "run": "r", "at": 0, "composition": "1", "slo_status": "none", "stages": []}
    write_atomically(pa.Table.from_pylist([row], schema=SCHEMAS[kind]), source / kind / "a--r-000002.parquet")
    (source / "file").write_text("")
    result = CliRunner().invoke(
        main, ["report", "a", "--from", str(source), "--out", str(source / "file" / "report.html")]
    )
    refused(result, "cannot write")
