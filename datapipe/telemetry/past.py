"""What an app did in a range of time, from its snapshots, for charts: few files are read, however long it is. Needs no
Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from datapipe.telemetry.schema import SEPARATOR, SUFFIX

FILES = 240
"""That are read at most. A file has ten seconds: up to forty minutes come whole, of a day one part in thirty-six."""
LATE_S = 15.0
"""A file may be closed so long after what it tells."""
COLUMNS = (
    *("at", "composition", "input_rate_per_s", "throughput_per_s", "latency_mean_ms", "latency_p95_ms", "queued"),
    *("slo_metric", "slo_target", "slo_bound", "slo_status", "stages", "offered_per_s", "workers"),
    *("latency_p50_ms", "latency_p99_ms", "latency_share_ms"),
)


def snapshots_between(folder: Path, app: str, from_s: float, to_s: float, most: int = FILES) -> list[dict[str, Any]]:
    """Rows of ``COLUMNS``, one a second at most, oldest first; ``at`` is a time in UTC. Of more than ``most`` files
    every so many-th is read. Seconds since 1970. What cannot be read is left out: a chart has a gap there."""
    found = sorted(_closed(folder, app, from_s, to_s))
    step = -(-len(found) // most) or 1
    rows = (row for _, path in found[::step] for row in _rows(path))
    by_second = {int(row["at"].timestamp()): row for row in rows}
    return [by_second[second] for second in sorted(by_second) if from_s <= second <= to_s]


def _closed(folder: Path, app: str, from_s: float, to_s: float) -> Iterator[tuple[float, Path]]:
    for path in (folder / "snapshots").glob(f"{app}{SEPARATOR}*{SUFFIX}"):
        try:
            closed_s = path.stat().st_mtime
        except OSError:  # a sweep was faster
            continue
        if from_s <= closed_s <= to_s + LATE_S:
            yield closed_s, path


def _rows(path: Path) -> list[dict[str, Any]]:
    """The last one of each second."""
    try:
        file = pq.ParquetFile(path)
        known = [name for name in COLUMNS if name in file.schema_arrow.names]
        table = file.read(
            known, use_threads=False
        )  # to wake threads for ten seconds of rows takes longer than reading them
    except (pa.ArrowException, OSError):
        return []
    seconds = table.column("at").cast(pa.int64()).to_numpy() // 1_000_000
    last = np.flatnonzero(np.diff(seconds, append=seconds[-1:] + 1))
    found: list[dict[str, Any]] = table.take(last).to_pylist()
    return found
