"""Telemetry never waits and never raises: what the disk does not take is lost and counted."""

import os
import stat
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from datapipe.telemetry.schema import SCHEMAS, UNIT_KEY, VERSION, VERSION_KEY, version_of
from datapipe.telemetry.store import TelemetryError, files_of, some_files_of
from datapipe.telemetry.writer import Keep, Origin, TelemetryWriter, WriterSettings, sweep

PATIENT = WriterSettings(roll_s=3600, slow_roll_s=3600)
FIELDS = ("number", "at", "from", "to")


def columns(records: Sequence[Any]) -> dict[str, Any]:
    rows = dict(zip(FIELDS, map(list, zip(*records, strict=True)), strict=True))
    known, nothing = (*FIELDS, "app", "run", "epoch", "app_version"), [None] * len(records)
    return rows | {name: nothing for name in SCHEMAS["switches"].names if name not in known}


def writer(folder: Path, settings: WriterSettings = PATIENT, make: Any = columns) -> TelemetryWriter:
    return TelemetryWriter(folder, Origin("a", "r", 3), {"switches": make}, settings)


def test_what_was_put_is_in_the_files_and_no_hidden_one_is_left(tmp_path: Path) -> None:
    telemetry = writer(tmp_path / "new")
    for number in range(100):
        telemetry.put("switches", (number, number * 1_000_000, "1", "2"))
    telemetry.close()
    (path,) = files_of(tmp_path / "new", "switches", "a--")
    table = pq.read_table(path, partitioning=None)
    assert table.column("number").to_pylist() == list(range(100))
    assert set(table.column("run").to_pylist()) == {telemetry.run}
    assert set(table.column("epoch").to_pylist()) == {3}
    assert (telemetry.written, telemetry.lost, telemetry.fault) == (100, 0, None)
    assert os.listdir(path.parent) == [path.name]
    assert version_of(table.schema) == VERSION
    modes = [stat.S_IMODE(each.stat().st_mode) for each in (path, path.parent, tmp_path / "new")]
    assert modes == [0o600, 0o700, 0o700], "for their user only"


@pytest.mark.parametrize(("number", "why"), [(1, "FileExistsError"), ("no number", "ArrowInvalid")])
def test_a_disk_or_a_value_that_is_refused_loses_records_and_says_why(tmp_path: Path, number: Any, why: str) -> None:
    if number == 1:
        (tmp_path / "switches").write_text("a file where a folder should be")
    telemetry = writer(tmp_path)
    telemetry.put("switches", (number, 0, "1", "2"))
    telemetry.close()
    assert (telemetry.written, telemetry.lost) == (0, 1)
    assert why in str(telemetry.fault)


def test_a_slow_disk_fills_the_buffer_and_the_rest_is_lost(tmp_path: Path) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def slow(records: Sequence[Any]) -> dict[str, Any]:
        entered.set()
        assert go_on.wait(60)
        return columns(records)

    telemetry = writer(tmp_path, WriterSettings(buffer_records=10, roll_s=0.0, slow_roll_s=0.0), slow)
    telemetry.put("switches", (0, 0, "1", "2"))
    assert entered.wait(60)  # the thread holds the first record and hangs at the disk
    for number in range(1, 26):
        telemetry.put("switches", (number, 0, "1", "2"))
    assert (telemetry.buffered, telemetry.lost) == (10, 15)
    go_on.set()
    telemetry.close()
    assert (telemetry.written, telemetry.lost) == (11, 15)


def test_old_files_go_first_by_age_and_by_size_and_other_apps_stay(tmp_path: Path) -> None:
    (tmp_path / "items").mkdir()
    names = ["a--r-000001.parquet", "a--r-000002.parquet", "a--r-000003.parquet", "ab--r-000001.parquet"]
    for age_days, name in zip((9, 2, 1, 9), names, strict=True):
        path = tmp_path / "items" / name
        path.write_bytes(b"x" * 1000)
        os.utime(path, (1e9 - age_days * 86_400,) * 2)
    assert sweep(tmp_path, "a", Keep(days=7, megabytes=1), now_s=1e9) == 1
    assert sweep(tmp_path, "a", Keep(days=7, megabytes=0.0015), now_s=1e9) == 1
    assert sorted(os.listdir(tmp_path / "items")) == names[2:]


@pytest.mark.parametrize("kind", SCHEMAS)
def test_every_column_tells_its_unit(kind: str) -> None:
    for field in SCHEMAS[kind]:
        assert field.metadata[UNIT_KEY], field.name


# --- reading ----------------------------------------------------------------------------------------------------------


def test_folders_and_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(TelemetryError, match=r"there is no folder '.*gone'; give the one"):
        files_of(tmp_path / "gone", "items")
    with pytest.raises(TelemetryError, match="has no telemetry; give a folder with files items/"):
        some_files_of(tmp_path, "items")
    file = tmp_path / "items" / "a--r-000001.parquet"
    file.parent.mkdir()
    file.write_bytes(b"PAR1 and then nonsense")
    with pytest.raises(TelemetryError, match=r"000001.parquet' is not a readable Parquet file"):
        files_of(tmp_path, "items")
    pq.write_table(SCHEMAS["items"].remove_metadata().empty_table(), file)
    with pytest.raises(TelemetryError, match="is not telemetry: its schema has no version"):
        files_of(tmp_path, "items")
    pq.write_table(SCHEMAS["items"].with_metadata({VERSION_KEY: b"99"}).empty_table(), file)
    with pytest.raises(TelemetryError, match=f"has schema version 99, this program reads up to {VERSION}"):
        files_of(tmp_path, "items")
