"""Telemetry as a runner of Ferret would have written it."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from datapipe.telemetry.schema import SCHEMAS

BEGAN_S = 1_780_000_000.0


def row(at_s: float, **told: Any) -> dict[str, Any]:
    """A snapshot, with ``told`` instead of what it would say."""
    stage = {"stage": "rank", "service_ms": 96.4, "cpu_ms": 90.0, "bottleneck": True}
    known = {"app": "ferret", "run": "r", "composition": "13", "state": "stable", "switching": False, "queued": 3}
    figures = {"input_rate_per_s": 10.0, "throughput_per_s": 9.9, "latency_mean_ms": 181.0, "latency_p95_ms": None}
    figures |= {"latency_p99_ms": 300.0}
    slo = {"slo_metric": "latency", "slo_target": 400.0, "slo_bound": 480.0, "slo_status": "met", "workers": 5}
    return {**known, **figures, **slo, "at": datetime.fromtimestamp(at_s, UTC), "stages": [stage], **told}


def write(folder: Path, number: int, app: str = "ferret", began_s: float = BEGAN_S, **told: Any) -> None:
    """Ten seconds, four rows a second, in a file that was closed at their end."""
    first_s = began_s + 10 * number
    rows = [row(first_s + quarter / 4, app=app, **told) for quarter in range(40)]
    path = folder / "snapshots" / f"{app}--{rows[0]['run']}-{number:06d}.parquet"
    _write(path, "snapshots", rows, first_s + 10)


def rewrite(folder: Path, number: int, rows: list[dict[str, Any]]) -> None:
    """Other rows in a file that ``write`` wrote."""
    path = folder / "snapshots" / f"ferret--{rows[0]['run']}-{number:06d}.parquet"
    _write(path, "snapshots", rows, path.stat().st_mtime)


def write_items(
    folder: Path, number: int, latencies_s: list[float], run: str = "r", app: str = "ferret", began_s: float = BEGAN_S
) -> None:
    """Items that left one after the other, a second apart."""
    rows = []
    for place, latency_s in enumerate(latencies_s):
        left_s = began_s + 10 * number + place
        stages = [{"stage": "rank", "wall_ns": 96_000_000, "cpu_ns": 90_000_000}]
        instants = {"arrived": left_s - latency_s, "read": left_s - latency_s + 0.05, "delivered": left_s}
        known = {"app": app, "run": run, "serial": 10 * number + place, "composition": "13", "batch": 1}
        at = {name: datetime.fromtimestamp(round(at_s, 3), UTC) for name, at_s in instants.items()}
        rows.append({**known, **at, "outcome": "delivered", "stages": stages})
    _write(folder / "items" / f"{app}--{run}-{number:06d}.parquet", "items", rows, began_s + 10 * number + 10)


def write_switches(folder: Path, run: str, numbers: list[int]) -> None:
    """Of one number twice: what was written later tells more."""
    rows = [{"app": "ferret", "run": run, "number": number, "from": "1", "to": "13"} for number in numbers]
    _write(folder / "switches" / f"ferret--{run}-000000.parquet", "switches", rows, BEGAN_S)


def _write(path: Path, kind: str, rows: list[dict[str, Any]], closed_s: float) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMAS[kind]), path)
    os.utime(path, (closed_s, closed_s))
