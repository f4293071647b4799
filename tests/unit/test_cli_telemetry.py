"""``recompose telemetry`` and ``recompose report`` given what they cannot use: a sentence, exit 1, nothing written."""

import os
import time
from pathlib import Path

import cv2
import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from datapipe.spark import session
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


def refused(sentence: str, *arguments: object) -> str:
    result = CliRunner().invoke(main, [*map(str, arguments)])
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ")
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1
    return result.stderr


def test_a_job_waits_for_the_first_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def written(_: float) -> None:
        (tmp_path / "items").mkdir()
        (tmp_path / "items" / "b--r-000001.parquet").write_bytes(b"PAR1")

    monkeypatch.setattr(time, "sleep", written)
    refused("is not a readable Parquet file", "telemetry", tmp_path, "--wait")


def test_no_java(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(source))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    refused("Spark needs Java 17 or 21", "telemetry", source, "--batch")
    assert sorted(os.listdir(source)) == ["items", "snapshots"]


@pytest.mark.parametrize("master", ["spark://127.0.0.1:1", "spark://nowhere"])
def test_a_master_that_cannot_be_reached(source: Path, master: str) -> None:
    refused("cannot be reached", "telemetry", source, "--batch", "--master", master)
    assert sorted(os.listdir(source)) == ["items", "snapshots"]


def test_a_report_of_an_app_or_a_period_without_records(source: Path) -> None:
    out = source / "report.html"
    told = refused("no telemetry of 'ferret' in that period", "report", "ferret", "--from", source, "--out", out)
    assert "there is some of a" in told
    assert not out.exists()


def test_a_report_that_cannot_be_written(source: Path) -> None:
    row = {"app": "a", "run": "r", "at": 0, "composition": "1", "slo_status": "none", "stages": []}
    table = pa.Table.from_pylist([row], schema=SCHEMAS["snapshots"])
    write_atomically(table, source / "snapshots" / "a--r-000002.parquet")
    (source / "file").write_text("")
    refused("cannot write", "report", "a", "--from", source, "--out", source / "file" / "report.html")


pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(3):
        coarse = np.random.default_rng(number).integers(0, 256, (3, 4, 3), dtype=np.uint8)
        cv2.imwrite(str(folder / f"{number}.png"), coarse.repeat(30, 0).repeat(40, 1))
    (folder / "broken.jpg").write_bytes(b"")
    (folder / "notes.txt").write_text("no photo")
    return folder


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["ingest", *map(str, arguments)])


def test_it_says_what_it_did_and_where_the_rest_is(photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = run("ferret", photos, "--out", out, "--no-spark")
    assert first.exit_code == 0, first.output
    assert "4 files computed, 0 kept, 0 gone, 1 in quarantine" in first.output
    assert (out / "versions/1/quarantine.parquet").exists()
    assert "skipped, as their names do not end in .bmp, " in first.output
    assert first.output.rstrip().endswith(": notes.txt")
    again = run("ferret", photos, "--out", out, "--no-spark")
    assert f"{out}: version 1, " in again.output
    assert "0 files computed, 4 kept, 0 gone" in again.output


def test_without_java_it_works_in_process(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_candidates", lambda: iter(()))
    done = run("ferret", photos, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert "Spark needs Java 17 or 21" in done.output
    assert "run make setup-java; the features are computed in this process" in done.output


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["ferret", "gone"], "gone' does not exist; give a folder, or the URL of one"),
        (["ferret", "empty"], "empty' has no usable files; give a folder with files that end in .bmp"),
        (["ferret", "photos", "--master", "spark://127.0.0.1:9"], "'spark://127.0.0.1:9' cannot be reached"),
        (["synthetic", "photos"], "app 'synthetic' has no data set that recompose ingest could make"),
        (["ferret", "photos", "--out", "photos"], "has other files in it; give a data set, or a new folder"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence_and_leaves_nothing(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    before = sorted(tmp_path.rglob("*"))
    spark = [] if "--master" in arguments else ["--no-spark"]
    done = run(*arguments, *spark)
    assert done.exit_code == 1
    assert sentence in str(done.exception or "") + done.output
    assert [path for path in sorted(tmp_path.rglob("*")) if "cache" not in path.parts] == before
