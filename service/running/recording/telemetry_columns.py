"""Columns of rows of telemetry; made in the writer's thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from datapipe.telemetry.schema import INSTANT, STAGE

Record = tuple[Any, ...]
Table = dict[str, Any]
"""Values by the name of their column."""
Columns = Callable[[Sequence[Record]], Table]


def columns(epoch_s: float) -> dict[str, Columns]:
    """By kind of row. ``epoch_s``: the wall clock at 0 of the clock of items."""
    return {
        "items": Items(epoch_s).columns,
        "snapshots": _snapshot_columns,
        "decisions": _rows(DECISION_FIELDS),
        "switches": _rows(SWITCH_FIELDS),
    }


class Items:
    """Of items that left."""

    def __init__(self, epoch_s: float) -> None:
        self._epoch_s = epoch_s

    def columns(self, records: Sequence[Record]) -> Table:
        serials, due, read, delivered, compositions, fates, batch, targets, thresholds, timings = zip(
            *records, strict=True
        )
        return {
            "serial": pa.array(serials, pa.int64()),
            "arrived": self._instants(due),
            "read": self._instants(read),
            "delivered": self._instants(delivered),
            "composition": pa.array(compositions, pa.string()),
            "outcome": pa.array(fates, pa.string()),
            "batch": pa.array(batch, pa.int32()),
            "target_us": pa.array(targets, pa.int64()),
            "threshold": pa.array(thresholds, pa.float64()),
            "stages": _stage_lists(timings),
        }

    def _instants(self, seconds: Sequence[float]) -> Any:
        micros = np.rint((np.asarray(seconds) + self._epoch_s) * 1e6).astype(np.int64)
        return pa.array(micros, pa.int64()).cast(INSTANT)


def _stage_lists(timings: Sequence[Sequence[Any]]) -> Any:
    """One list of stages for each item, made of flat columns: an object for each would cost more than all the rest."""
    flat = list(chain.from_iterable(timings))
    offsets = np.zeros(len(timings) + 1, np.int32)
    np.cumsum([len(item) // 3 for item in timings], out=offsets[1:])
    columns = [pa.array(flat[0::3], pa.string()), _nanos(flat[1::3]), _nanos(flat[2::3])]
    values = pa.StructArray.from_arrays(columns, fields=list(STAGE))
    return pa.ListArray.from_arrays(pa.array(offsets), values)


def _nanos(seconds: Sequence[float]) -> Any:
    return pa.array(np.rint(np.asarray(seconds, np.float64) * 1e9).astype(np.int64))


DECISION_FIELDS = ("id", "at", "trigger", "from", "to", "reason", "body")
SWITCH_FIELDS = (
    "number", "at", "from", "to", "style", "gap_ms", "drain_mean_ms", "drain_estimate_ms", "drain_actual_ms", "error",
)  # fmt: skip
SNAPSHOT_FIELDS = (
    "at", "composition", "state", "switching", "input_rate_per_s", "throughput_per_s", "latency_mean_ms",
    "latency_p95_ms", "queued", "in_flight", "workers", "slo_metric", "slo_target", "slo_bound", "slo_status",
    "drain_estimate_ms", "stages", "offered_per_s", "admitted_per_s", "missed", "lag_s",
)  # fmt: skip
SNAPSHOT_STAGE_FIELDS = ("stage", "service_ms", "cpu_ms", "bottleneck")


def _rows(fields: Sequence[str]) -> Columns:
    def columns(records: Sequence[Record]) -> Table:
        return dict(zip(fields, map(list, zip(*records, strict=True)), strict=True))

    return columns


def _snapshot_columns(records: Sequence[Record]) -> Table:
    columns = _rows(SNAPSHOT_FIELDS)(records)
    columns["stages"] = [[dict(zip(SNAPSHOT_STAGE_FIELDS, s, strict=True)) for s in row] for row in columns["stages"]]
    return columns
