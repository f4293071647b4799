"""How many items arrived when, from their telemetry. Needs no Spark."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from datapipe.telemetry.schema import SEPARATOR, SUFFIX


def arrivals_between(folder: Path, app: str, from_s: float, to_s: float, bin_s: float) -> npt.NDArray[np.int64]:
    """Items of ``app`` that arrived in each of the bins of ``bin_s`` from ``from_s`` on, seconds since 1970, oldest
    first; up to the last bin in which one did. What cannot be read is not counted."""
    counts = np.zeros(max(0, int((to_s - from_s) / bin_s)), np.int64)
    for path in (folder / "items").glob(f"{app}{SEPARATOR}*{SUFFIX}"):
        arrived_s = _arrived_s(path, from_s)
        bins = ((arrived_s - from_s) // bin_s).astype(np.int64)
        counts += np.bincount(bins[(bins >= 0) & (bins < len(counts))], minlength=len(counts))
    return np.trim_zeros(counts, "b")


def _arrived_s(path: Path, from_s: float) -> npt.NDArray[np.float64]:
    """None of a file that was closed too early, swept away, or torn."""
    try:
        if path.stat().st_mtime < from_s:
            return np.zeros(0)
        column = pq.read_table(path, columns=["arrived"], partitioning=None, use_threads=False).column("arrived")
    except (pa.ArrowException, OSError, KeyError):
        return np.zeros(0)
    micros: npt.NDArray[np.int64] = column.cast(pa.int64()).to_numpy()
    return micros / 1e6
