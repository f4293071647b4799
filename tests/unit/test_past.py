"""Samples of longer ago than a runner keeps."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datapipe.telemetry import traces
from datapipe.telemetry.past import snapshots_between
from datapipe.telemetry.schema import SCHEMAS
from service.bodies.refusals import NotFoundError
from service.bodies.spec import TelemetrySpec
from service.bodies.traces import Trace
from service.daemon import past
from service.daemon.past import AskedTraces, samples_between

BEGAN_S = 1_780_000_000.0


def row(at_s: float) -> dict[str, Any]:
    stage = {"stage": "rank", "service_ms": 96.4, "cpu_ms": 90.0, "bottleneck": True}
    known = {"app": "ferret", "run": "r", "composition": "13", "state": "stable", "switching": False, "queued": 3}
    figures = {"input_rate_per_s": 10.0, "throughput_per_s": 9.9, "latency_mean_ms": 181.0, "latency_p95_ms": None}
    figures |= {"latency_p99_ms": 300.0}
    slo = {"slo_metric": "latency", "slo_target": 400.0, "slo_bound": 480.0, "slo_status": "met", "workers": 5}
    return {**known, **figures, **slo, "at": datetime.fromtimestamp(at_s, UTC), "stages": [stage]}


def write(folder: Path, number: int, app: str = "ferret") -> None:
    """Ten seconds, four rows a second, in a file that was closed at their end."""
    first_s = BEGAN_S + 10 * number
    table = pa.Table.from_pylist([row(first_s + quarter / 4) for quarter in range(40)], schema=SCHEMAS["snapshots"])
    path = folder / "snapshots" / f"{app}--r-{number:06d}.parquet"
    path.parent.mkdir(exist_ok=True)
    pq.write_table(table, path)
    os.utime(path, (first_s + 10, first_s + 10))


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
    assert len(found) == 100
    assert found[-1]["at"].timestamp() - BEGAN_S > 270


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


def write_items(folder: Path, number: int, latencies_s: list[float], run: str = "r") -> None:
    """Items that left one after the other, a second apart."""
    rows = []
    for place, latency_s in enumerate(latencies_s):
        left_s = BEGAN_S + 10 * number + place
        stages = [{"stage": "rank", "wall_ns": 96_000_000, "cpu_ns": 90_000_000}]
        instants = {"arrived": left_s - latency_s, "read": left_s - latency_s + 0.05, "delivered": left_s}
        known = {"app": "ferret", "run": run, "serial": 10 * number + place, "composition": "13", "batch": 1}
        at = {name: datetime.fromtimestamp(round(at_s, 3), UTC) for name, at_s in instants.items()}
        rows.append({**known, **at, "outcome": "delivered", "stages": stages})
    path = folder / "items" / f"ferret--{run}-{number:06d}.parquet"
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMAS["items"]), path)
    os.utime(path, (BEGAN_S + 10 * number + 10,) * 2)


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
    asked = AskedTraces(serial=99, run=None, slowest=1, last_s=1.0)
    with pytest.raises(NotFoundError, match=r"item 99 of ferret is not in the telemetry"):
        past.traces(TelemetrySpec(folder=str(tmp_path)), "ferret", asked)
