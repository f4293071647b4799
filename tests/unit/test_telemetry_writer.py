"""Telemetry never waits and never raises: what a disk does not take is lost and counted. Bundles are a row an item."""

import os
import stat
import threading
import tracemalloc
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datapipe.telemetry.schema import SCHEMAS, UNIT_KEY, VERSION, VERSION_KEY, version_of
from datapipe.telemetry.store import TelemetryError, files_of, some_files_of
from datapipe.telemetry.writer import Keep, Origin, TelemetryWriter, WriterSettings, sweep
from profiler.snapshot import StageTiming
from runtime.dispatch.outcomes import Delivered, Outcome, Shed, TaskTimed
from service.runner.telemetry.accounts import WallClock
from service.runner.telemetry.telemetry import Telemetry, Timings
from service.schemas.spec import TelemetrySpec

PATIENT = WriterSettings(roll_s=3600, slow_roll_s=3600)
FIELDS = ("number", "at", "from", "to")
ROWS = ("serial", "outcome", "composition", "batch")


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


KEEP = Keep(days=7, megabytes=0.01)


def old_files(folder: Path, *made: tuple[int, int]) -> list[Path]:
    """Return a file of each age in hours and size in bytes, of all kinds in turn."""
    paths = []
    for number, (age_h, size) in enumerate(made):
        path = folder / [*SCHEMAS][number % len(SCHEMAS)] / f"a--r-{number:06}.parquet"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x" * size)
        os.utime(path, (1e9 - 3600 * age_h,) * 2)
        paths.append(path)
    return paths


@given(made=st.dictionaries(st.integers(0, 200), st.integers(0, 4000), max_size=12))
def test_the_newest_files_stay_within_the_limits_and_those_of_other_apps(made: dict[int, int]) -> None:
    with TemporaryDirectory() as folder:
        paths = dict(zip(made, old_files(Path(folder), *made.items()), strict=True))
        other = Path(folder) / "items" / "ab--r-000001.parquet"
        other.parent.mkdir(exist_ok=True)
        other.write_bytes(b"x" * 20_000)
        young = [age_h for age_h in sorted(made) if age_h <= 7 * 24]
        stay = [age_h for at, age_h in enumerate(young) if sum(made[each] for each in young[: at + 1]) <= 10_000]
        assert sweep(Path(folder), "a", KEEP, now_s=1e9) == len(made) - len(stay)
        assert sorted(age_h for age_h, path in paths.items() if path.exists()) == sorted(stay)
        assert other.exists()


@pytest.mark.parametrize("size", [1, 20])
def test_a_sweep_does_not_hold_what_it_looks_at(tmp_path: Path, size: int) -> None:
    """A week of a busy stream has some hundred thousand files. Of 20 bytes each a few are beyond the limit."""
    old_files(tmp_path, *[(number % 24, size) for number in range(510)])
    tracemalloc.start()
    try:
        assert sweep(tmp_path, "a", KEEP, now_s=1e9) == (10 if size == 20 else 0)
        assert tracemalloc.get_traced_memory()[1] < 40_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", SCHEMAS)
def test_every_column_tells_its_unit(kind: str) -> None:
    for field in SCHEMAS[kind]:
        assert field.metadata[UNIT_KEY], field.name


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
    with pytest.raises(TelemetryError, match=f"has schema version 99; this version reads up to {VERSION}"):
        files_of(tmp_path, "items")


def timed(serial: int, items: int, **walls_s: float) -> TaskTimed:
    timings = tuple(StageTiming(stage, wall_s, wall_s / 2) for stage, wall_s in walls_s.items())
    return TaskTimed(1.0, "c", timings, None, serial=serial, items=items)


def delivered(serial: int, count: int, error: str | None = None) -> Delivered:
    read_s = tuple(serial + item / 10 for item in range(count))
    return Delivered(9.0, serial, read_s, 2.0, "c", error=error, due_s=tuple(at_s - 0.5 for at_s in read_s))


def written(folder: Path, *outcomes: Outcome) -> list[dict[str, Any]]:
    telemetry = Telemetry(TelemetrySpec(folder=str(folder)), Origin("a", "r"), WallClock(1000.0))
    for outcome in outcomes:
        telemetry.observe(outcome)
    telemetry.close()
    status = telemetry.status()
    (path,) = (folder / "items").glob("*.parquet")
    rows: list[dict[str, Any]] = pq.read_table(path, partitioning=None).to_pylist()
    assert (status.written, status.lost, status.buffered) == (len(rows), 0, 0)
    return rows


def at(second: float) -> datetime:
    return datetime.fromtimestamp(1000.0 + second, UTC)


def test_a_bundle_is_as_many_rows_with_their_own_times(tmp_path: Path) -> None:
    rows = written(tmp_path, timed(0, 3, s1=0.3, s2=0.6), timed(3, 1, s1=0.1), delivered(0, 3), delivered(3, 1))
    assert [tuple(row[name] for name in ROWS) for row in rows] == [
        (0, "delivered", "c", 0), (1, "delivered", "c", 0), (2, "delivered", "c", 3), (3, "delivered", "c", 1),
    ]  # fmt: skip
    assert [row["read"] for row in rows] == [at(0), at(0.1), at(0.2), at(3)]
    assert [row["arrived"] for row in rows] == [at(-0.5), at(-0.4), at(-0.3), at(2.5)]
    assert {row["delivered"] for row in rows} == {at(9)}
    shares = [{stage["stage"]: round(stage["wall_ns"] / 1e9, 6) for stage in row["stages"]} for row in rows]
    assert shares == [{"s1": 0.1, "s2": 0.2}] * 3 + [{"s1": 0.1}]


def test_a_bundle_that_was_taken_apart_on_its_way(tmp_path: Path) -> None:
    parts = [timed(0, 1, s2=0.2), timed(2, 2, s2=0.6)]
    out = [delivered(0, 1), delivered(1, 1, error="no"), delivered(2, 2), Shed(9.0, 4, (4.0, 4.5))]
    rows = written(tmp_path, timed(0, 4, s1=0.4), *parts, *out)
    assert [tuple(row[name] for name in ROWS) for row in rows] == [
        (0, "delivered", "c", 1), (1, "failed", "c", 1), (2, "delivered", "c", 0), (3, "delivered", "c", 2),
        (4, "shed", "", 0), (5, "shed", "", 2),
    ]  # fmt: skip
    stages = [[(each["stage"], round(each["wall_ns"] / 1e9, 6)) for each in row["stages"]] for row in rows]
    whole = ("s1", 0.1)
    assert stages == [[whole, ("s2", 0.2)], [whole], [whole, ("s2", 0.3)], [whole, ("s2", 0.3)], [], []]


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 12)), max_size=20), st.data())
def test_runs_of_timings_say_the_same_as_a_list_an_item(tasks: list[tuple[int, int]], data: st.DataObject) -> None:
    timings, each = Timings(), dict[int, list[Any]]()
    for number, (serial, count) in enumerate(tasks):
        timings.add(serial, count, [StageTiming(f"s{number}", float(count), 0.0)])
        for item in range(serial, serial + count):
            each.setdefault(item, []).extend((f"s{number}", 1.0, 0.0))
    serial = 0
    while serial < 50:
        count = data.draw(st.integers(1, 20))
        told = [shares for items, shares in timings.pop(serial, count) for _ in range(items)]
        assert told == [tuple(each.get(item, ())) for item in range(serial, serial + count)]
        serial += count
    assert timings.pop(0, 60) == [(60, ())]
