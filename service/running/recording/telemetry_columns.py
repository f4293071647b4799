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
    """Of items that left. A record stands for a run of them: first serial number, since when a user waited for each,
    when each was read, when they left, and what they have in common."""

    def __init__(self, epoch_s: float) -> None:
        self._epoch_s = epoch_s

    def columns(self, records: Sequence[Record]) -> Table:
        first, due, read, delivered, *common, timings = zip(*records, strict=True)
        counts = np.array([len(times) for times in read])
        compositions, fates, batch, targets, thresholds = (_repeated(values, counts) for values in common)
        return {
            "serial": pa.array(np.repeat(np.array(first) - _starts(counts), counts) + np.arange(counts.sum())),
            "arrived": self._instants(list(chain.from_iterable(due))),
            "read": self._instants(list(chain.from_iterable(read))),
            "delivered": self._instants(np.repeat(np.array(delivered), counts)),
            "composition": compositions.cast(pa.string()),
            "outcome": fates.cast(pa.string()),
            "batch": batch.cast(pa.int32()),
            "target_us": targets.cast(pa.int64()),
            "threshold": thresholds.cast(pa.float64()),
            "stages": _stage_lists(timings, counts),
        }

    def _instants(self, seconds: Any) -> Any:
        micros = np.rint((np.asarray(seconds) + self._epoch_s) * 1e6).astype(np.int64)
        return pa.array(micros, pa.int64()).cast(INSTANT)


def _starts(counts: Any) -> Any:
    """Where each run begins among all its items."""
    return np.cumsum(counts) - counts


def _repeated(values: Sequence[Any], counts: Any) -> Any:
    return pa.array(values).take(pa.array(np.repeat(np.arange(len(values)), counts)))


def _stage_lists(timings: Sequence[Sequence[Any]], counts: Any) -> Any:
    """One list of stages for each item, made of flat columns: an object for each would cost more than all the rest."""
    flat = list(chain.from_iterable(timings))
    stages = [pa.array(flat[0::3], pa.string()), _nanos(flat[1::3]), _nanos(flat[2::3])]
    of_runs = np.array([len(shares) // 3 for shares in timings])
    of_items = np.repeat(of_runs, counts)
    offsets = np.concatenate(([0], np.cumsum(of_items))).astype(np.int32)
    # Of each entry: which of its run's stages it is, and where those begin in the flat columns.
    entries = np.arange(offsets[-1]) + np.repeat(np.repeat(_starts(of_runs), counts) - offsets[:-1], of_items)
    values = pa.StructArray.from_arrays([column.take(pa.array(entries)) for column in stages], fields=list(STAGE))
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
    "latency_p50_ms", "latency_p99_ms", "latency_share_ms",
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
