"""Read an app's snapshots in a range of time, for charts, from a limited number of files. Needs no Spark."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from datapipe.telemetry.store import closed_files, columns_of

FILES = 240
"""Maximum number of files to read. A file has ten seconds: of 40 minutes all are read, of a day every 36th."""
LATE_S = 15.0
"""Maximum delay from a snapshot to the closing of its file."""
EXTREMES = {
    "throughput_per_s": (np.argmin, np.argmax),
    "latency_mean_ms": (np.argmin,),
    "latency_p95_ms": (np.argmax,),
    "queued": (np.argmax,),
}
"""Columns whose extremes represent ten seconds if only some files are read, so that a short overload is visible."""
COLUMNS = (
    *("at", "composition", "input_rate_per_s", "throughput_per_s", "latency_mean_ms", "latency_p95_ms", "queued"),
    *("slo_metric", "slo_target", "slo_bound", "slo_status", "stages", "offered_per_s", "workers"),
    *("latency_p50_ms", "latency_p99_ms", "latency_share_ms"),
)


def snapshots_between(folder: Path, app: str, from_s: float, to_s: float, most: int = FILES) -> list[dict[str, Any]]:
    """Return rows of ``COLUMNS``, at most one per second, oldest first; ``at`` is a time in UTC. Of more than ``most``
    files, every n-th is read, and of it only the last row and the extremes of ``EXTREMES``. ``from_s`` and ``to_s``:
    seconds since 1970. Unreadable files are left out, which shows as a gap in a chart."""
    files = closed_files(folder, "snapshots", app)
    found = sorted((closed_s, path) for closed_s, _, path in files if from_s <= closed_s <= to_s + LATE_S)
    step = -(-len(found) // most) or 1
    tables = [table for _, path in found[::step] if (table := columns_of(path, COLUMNS)) is not None]
    by_second = {int(row["at"].timestamp()): row for row in _rows(tables, thin=step > 1)}
    return [by_second[second] for second in sorted(by_second) if from_s <= second <= to_s]


def _rows(tables: Sequence[Any], *, thin: bool) -> list[dict[str, Any]]:
    """Return the last row of each second of all tables; ``thin``: only those that ``_telling`` selects per table."""
    if not tables:
        return []
    picked, before = [], 0
    for table in tables:
        last = _last_of_seconds(table)
        picked.append(before + (_telling(table, last) if thin else last))
        before += table.num_rows
    whole = pa.concat_tables(tables, promote_options="permissive")  # older files have fewer columns
    found: list[dict[str, Any]] = whole.take(np.concatenate(picked)).to_pylist()
    return found


def _last_of_seconds(table: Any) -> Any:
    seconds = table.column("at").cast(pa.int64()).to_numpy() // 1_000_000
    return np.flatnonzero(np.diff(seconds, append=seconds[-1:] + 1))


def _telling(table: Any, rows: Any) -> Any:
    """Return the last row and those with the least and the most of ``EXTREMES``, in their order."""
    kept = set(rows[-1:].tolist())
    for name, worst in EXTREMES.items():
        values = table.column(name).to_numpy().astype(float)[rows] if name in table.column_names else rows[:0]
        known = np.flatnonzero(~np.isnan(values.astype(float)))
        if len(known):
            kept |= {int(rows[known[find(values[known])]]) for find in worst}
    return np.array(sorted(kept), dtype=np.int64)
