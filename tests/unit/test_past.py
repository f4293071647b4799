"""Samples of longer ago than a runner keeps."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from written_telemetry import BEGAN_S, rewrite, row, write, write_items

from datapipe.telemetry import traces
from datapipe.telemetry.past import snapshots_between
from service.daemon import past
from service.daemon.past import samples_between
from service.schemas.refusals import NotFoundError
from service.schemas.runs import Trace
from service.schemas.spec import TelemetrySpec


def test_a_range_has_one_row_a_second_of_that_app(tmp_path: Path) -> None:
    for number in range(6):
        write(tmp_path, number)
    write(tmp_path, 2, "other")
    found = snapshots_between(tmp_path, "ferret", BEGAN_S + 15, BEGAN_S + 34)
    assert [each["at"].timestamp() // 1 - BEGAN_S for each in found] == list(range(15, 35))


def test_of_a_long_range_few_files_are_read_from_its_beginning_to_its_end(tmp_path: Path) -> None:
    for number in range(30):
        write(tmp_path, number)
    found = snapshots_between(tmp_path, "ferret", BEGAN_S, BEGAN_S + 300, most=10)
    assert len(found) == 20, "of each file that is read the first row, in which nothing is more, and the last"
    assert found[-1]["at"].timestamp() - BEGAN_S > 270


def test_of_a_long_range_the_extremes_of_what_is_read_are_kept(tmp_path: Path) -> None:
    for number in range(4):
        write(tmp_path, number)
    worst = {"latency_p95_ms": 2100.0, "queued": 41}
    rows = [
        row(BEGAN_S + second, **(worst if second == 3 else {"throughput_per_s": 9.0 + second % 2}))
        for second in range(10)
    ]
    rewrite(tmp_path, 0, rows)
    found = {
        each["at"].timestamp() - BEGAN_S: each
        for each in snapshots_between(tmp_path, "ferret", BEGAN_S, BEGAN_S + 40, most=2)
    }
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
    telemetry = TelemetrySpec(folder=str(tmp_path))
    sample = samples_between(telemetry, "ferret", BEGAN_S, BEGAN_S + 9)[0]
    assert (sample.composition, sample.queued, sample.workers, sample.service_time_ms) == ("13", 3, 5, {"rank": 96.4})
    assert (sample.latency_ms.p95, sample.latency_ms.p99, sample.latency_ms.share) == (None, 300.0, None)
    assert sample.slo is not None
    assert (sample.slo.bound, sample.slo.threshold, sample.slo_status) == (480.0, 0.2, "met")
    assert samples_between(None, "ferret", BEGAN_S, BEGAN_S + 9) == []
    assert samples_between(telemetry, "ferret", BEGAN_S + 9, BEGAN_S) == []


def test_the_slowest_items_are_found_over_files_and_the_time_of_each_adds_up(tmp_path: Path) -> None:
    write_items(tmp_path, 0, [9.0, 0.2])
    write_items(tmp_path, 1, [0.3, 0.5])
    write_items(tmp_path, 2, [0.4])
    (tmp_path / "items" / "ferret--r-000009.parquet").write_text("torn")
    found = [Trace.of(row) for row in traces.slowest(tmp_path, "ferret", BEGAN_S + 1, 3)]
    assert [each.serial for each in found] == [11, 20, 10]
    first = found[0]
    assert first.held_back_ms is not None
    times = (first.latency_ms, first.held_back_ms, first.waited_ms, first.worked_ms)
    assert times == pytest.approx((500.0, 50.0, 354.0, 96.0), abs=0.01)


def test_an_item_is_found_by_its_serial_number_in_the_latest_run_that_has_it(tmp_path: Path) -> None:
    write_items(tmp_path, 0, [0.1, 0.2], run="old")
    write_items(tmp_path, 1, [0.3])
    found = traces.one(tmp_path, "ferret", 1, None)
    assert found is not None
    assert (found["run"], found["serial"]) == ("old", 1)
    assert traces.one(tmp_path, "ferret", 1, "r") is None
    with pytest.raises(NotFoundError, match=r"item 99 of ferret is not in the telemetry"):
        past.trace_of(TelemetrySpec(folder=str(tmp_path)), "ferret", 99, None)
