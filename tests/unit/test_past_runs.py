"""Runs as their telemetry tells them: reports, plots over time, samples of long ago, and runs beside each other."""

import os
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from written_telemetry import BEGAN_S, rewrite, row, write, write_items, write_switches

from datapipe.report import data
from datapipe.report.build import summary_rows
from datapipe.report.data import Period, load
from datapipe.spark.delta import TableKind, commit, write_files
from datapipe.telemetry import traces
from datapipe.telemetry.past import snapshots_between
from datapipe.telemetry.runs import records_of, runs_of
from datapipe.telemetry.schema import INSTANT_OF, SCHEMAS
from service.cli import main
from service.daemon import past
from service.daemon.past import between, compared, known_runs
from service.schemas.refusals import NotFoundError
from service.schemas.runs import Trace
from service.schemas.spec import TelemetrySpec

ITEMS = 1000


def two_runs(folder: Path) -> TelemetrySpec:
    """``old`` missed its objective for half of its twenty seconds, ``new-one`` never did, with more workers."""
    write(folder, 0, run="old", slo_status="violated", composition="1")
    write(folder, 1, run="old", throughput_per_s=5.9)
    write_items(folder, 0, [0.1, 0.2, 0.3, 2.0], run="old")
    write_switches(folder, "old", [1, 1, 2])
    write(folder, 6, run="new-one", workers=7)
    write_items(folder, 6, [0.1], run="new-one")
    write(folder, 7, "other", run="elsewhere")
    return TelemetrySpec(folder=str(folder))


def test_runs_are_known_the_latest_first(tmp_path: Path) -> None:
    known = known_runs(two_runs(tmp_path), "ferret")
    assert [each.run for each in known] == ["new-one", "old"]
    assert runs_of(tmp_path, "ferret")[1].began_s == BEGAN_S
    assert runs_of(tmp_path, "ferret", most=1)[0].ended_s == BEGAN_S + 70
    assert known_runs(None, "ferret") == []


def test_what_runs_came_to_stands_side_by_side_the_earlier_one_first(tmp_path: Path) -> None:
    old, new = compared(two_runs(tmp_path), "ferret", [])
    assert (old.run, old.slo_met_share, old.delivered_per_s, old.switches) == ("old", 0.5, 7.9, 2)
    assert (old.latency_ms.mean, old.latency_ms.p50) == (650.0, 250.0)
    assert [(each.name, each.share) for each in old.compositions] == [("1", 0.5), ("13", 0.5)]
    assert (old.slo.bound, old.items.delivered, old.items.all_of_them) == (480.0, 4, True)
    assert (new.run, new.slo_met_share, new.workers, new.cpu_ms_per_item) == ("new-one", 1.0, 7.0, 90.0)
    assert new.worker_s == pytest.approx(7 * new.length_s)
    assert len(new.course) == 10


def test_runs_are_compared_in_the_order_in_which_they_are_asked_for(tmp_path: Path) -> None:
    telemetry = two_runs(tmp_path)
    assert [each.run for each in compared(telemetry, "ferret", ["new-one", "old"])] == ["new-one", "old"]
    assert compared(None, "ferret", []) == []
    for nothing in (None, telemetry):
        with pytest.raises(NotFoundError, match=r"run 'x' of ferret is not in the telemetry; GET /runs/ferret "):
            compared(nothing, "ferret", ["x"])


def test_of_a_long_run_a_part_is_read_and_it_says_so(tmp_path: Path) -> None:
    for number in range(6):
        write(tmp_path, number)
        write_items(tmp_path, number, [0.1])
    found = records_of(tmp_path, "ferret", "r", most=3)
    assert (len(found.snapshots), found.items.delivered, found.items.all_of_them) == (30, 3, False)


# Reports from the tables are those from the files of runners; a part of the records tells the same as all.


def an_item(number: int, run: str) -> dict[str, Any]:
    arrived = datetime.fromtimestamp(BEGAN_S + 0.02 * number, UTC)
    stage = {"stage": "rank", "wall_ns": 9_000_000, "cpu_ns": 8_000_000}
    outcome = "failed" if number % 100 == 0 else "delivered"
    known = {"app": "ferret", "run": run, "serial": number, "arrived": arrived, "outcome": outcome, "composition": "13"}
    return {**known, "read": arrived, "delivered": arrived + timedelta(milliseconds=200), "stages": [stage]}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "telemetry"
    for number in range(4):
        write(folder, number, run="r" if number < 2 else "s")
    write(folder, 0, app="other")
    (folder / "items").mkdir()
    for run in ("r", "s"):
        rows = [an_item(number, run) for number in range(ITEMS) if (number < ITEMS / 2) == (run == "r")]
        pq.write_table(pa.Table.from_pylist(rows, SCHEMAS["items"]), folder / "items" / f"ferret--{run}-000001.parquet")
    return folder


def as_tables(source: Path, out: Path) -> Path:
    """The same records as ``recompose telemetry`` would keep them."""
    for kind in ("snapshots", "items"):
        for number, file in enumerate(sorted((source / kind).glob("*.parquet"))):
            rows = pq.read_table(file, partitioning=None)
            rows = rows.append_column("date", rows.column(INSTANT_OF[kind]).cast(pa.date32()))
            table = TableKind(out / kind, rows.schema.remove_metadata())
            written = [row for each in write_files(table, iter(rows.to_batches())) for row in each.to_pylist()]
            commit(table, written, (kind, number))
    return out


def test_a_report_from_tables_is_the_one_from_files(source: Path, tmp_path: Path) -> None:
    tables = as_tables(source, tmp_path / "tables")
    told = dict(summary_rows(load(source, "ferret", Period())))
    assert told["items"] == "990 delivered, 49.6 a second, 10 failed"
    assert dict(summary_rows(load(tables, "ferret", Period()))) == told
    middle = datetime.fromtimestamp(BEGAN_S + 15, UTC)
    for period in (Period(run="s"), Period(since=middle), Period(until=middle)):
        assert summary_rows(load(tables, "ferret", period)) == summary_rows(load(source, "ferret", period))
    assert load(tables, "ferret", Period(run="s")).counts == {"delivered": 495, "failed": 5, "shed": 0}


def test_of_many_records_some_are_read_and_all_items_are_counted(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = load(source, "ferret", Period())
    monkeypatch.setattr(data, "MOST", {"snapshots": 20, "items": 100})
    some = load(source, "ferret", Period())
    assert (some.items.num_rows, some.snapshots.num_rows, some.every) == (100, 20, {"snapshots": 8, "items": 10})
    assert some.counts == whole.counts
    expected, told = dict(summary_rows(whole)), dict(summary_rows(some))
    assert (told["objective"], told["met"]) == (expected["objective"], expected["met"])
    assert told["CPU of the stages"].split(" s")[0] == expected["CPU of the stages"].split(" s")[0]


def test_a_report_of_all_apps_has_a_row_for_each(source: Path, tmp_path: Path) -> None:
    tables = as_tables(source, tmp_path / "tables")
    for folder in (source, tables):
        out = tmp_path / "report.html"
        result = CliRunner().invoke(main, ["report", "--from", str(folder), "--out", str(out)])
        assert result.exit_code == 0, result.output
        page = out.read_text()
        assert page.count("<tr>") == 3
        assert "990 delivered" in page
        assert "<td>other</td>" in page


# Samples of longer ago than a runner keeps.


def test_a_range_has_one_row_a_second_and_of_a_long_one_few_files_are_read(tmp_path: Path) -> None:
    for number in range(30):
        write(tmp_path, number)
    write(tmp_path, 2, "other")
    found = snapshots_between(tmp_path, "ferret", BEGAN_S + 15, BEGAN_S + 34)
    assert [each["at"].timestamp() // 1 - BEGAN_S for each in found] == list(range(15, 35))
    found = snapshots_between(tmp_path, "ferret", BEGAN_S, BEGAN_S + 300, most=10)
    assert len(found) == 20, "of each file that is read the first row, in which nothing is more, and the last"
    assert found[-1]["at"].timestamp() - BEGAN_S > 270


def test_of_a_long_range_the_extremes_of_what_is_read_are_kept(tmp_path: Path) -> None:
    for number in range(4):
        write(tmp_path, number)
    rows = [row(BEGAN_S + second, throughput_per_s=9.0 + second % 2) for second in range(10)]
    rows[3] |= {"latency_p95_ms": 2100.0, "queued": 41}
    rewrite(tmp_path, 0, rows)
    kept = snapshots_between(tmp_path, "ferret", BEGAN_S, BEGAN_S + 40, most=2)
    found = {each["at"].timestamp() - BEGAN_S: each for each in kept}
    assert sorted(found)[:4] == [0, 1, 3, 9]
    assert (found[3]["latency_p95_ms"], found[3]["queued"]) == (2100.0, 41)


def test_files_of_earlier_versions_stand_beside_later_ones(tmp_path: Path) -> None:
    write(tmp_path, 0)
    write(tmp_path, 1)
    old = tmp_path / "snapshots" / "ferret--r-000000.parquet"
    kept = pq.read_table(old).drop_columns(["latency_p50_ms", "offered_per_s", "epoch"])
    pq.write_table(kept, old)
    os.utime(old, (BEGAN_S + 10,) * 2)
    found = snapshots_between(tmp_path, "ferret", BEGAN_S, BEGAN_S + 20)
    assert [each["offered_per_s"] for each in found] == [None] * 20


def test_samples_are_those_that_charts_know(tmp_path: Path) -> None:
    write(tmp_path, 0)
    (tmp_path / "snapshots" / "ferret--r-000009.parquet").write_text("torn")
    telemetry, samples = TelemetrySpec(folder=str(tmp_path)), partial(between, lambda *_: [])
    sample = samples(telemetry, "ferret", BEGAN_S, BEGAN_S + 9)[0]
    assert (sample.composition, sample.queued, sample.workers, sample.service_time_ms) == ("13", 3, 5, {"rank": 96.4})
    assert (sample.latency_ms.p95, sample.latency_ms.p99, sample.latency_ms.share) == (None, 300.0, None)
    assert (sample.slo.bound, sample.slo.threshold, sample.slo_status) == (480.0, 0.2, "met")
    assert samples(None, "ferret", BEGAN_S, BEGAN_S + 9) == []
    assert samples(telemetry, "ferret", BEGAN_S + 9, BEGAN_S) == []


def test_the_slowest_items_are_found_over_files_and_the_time_of_each_adds_up(tmp_path: Path) -> None:
    write_items(tmp_path, 0, [9.0, 0.2])
    write_items(tmp_path, 1, [0.3, 0.5])
    write_items(tmp_path, 2, [0.4])
    (tmp_path / "items" / "ferret--r-000009.parquet").write_text("torn")
    found = [Trace.of(row) for row in traces.slowest(tmp_path, "ferret", BEGAN_S + 1, 3)]
    assert [each.serial for each in found] == [11, 20, 10]
    first = found[0]
    times = (first.latency_ms, first.held_back_ms, first.waited_ms, first.worked_ms)
    assert times == pytest.approx((500.0, 50.0, 354.0, 96.0), abs=0.01)


def test_an_item_is_found_by_its_serial_number_in_the_latest_run_that_has_it(tmp_path: Path) -> None:
    telemetry = TelemetrySpec(folder=str(tmp_path))
    write_items(tmp_path, 0, [0.1, 0.2], run="old")
    write_items(tmp_path, 1, [0.3])
    found = traces.one(tmp_path, "ferret", 1, None)
    assert (found["run"], found["serial"]) == ("old", 1)
    for serial, run in ((1, "r"), (99, None)):
        with pytest.raises(NotFoundError, match=rf"item {serial} of ferret is not in the telemetry"):
            past.trace_of(telemetry, "ferret", serial, run)
