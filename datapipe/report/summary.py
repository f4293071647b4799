"""What a report begins with: the objective, how far it was met, and what the run took."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from compositions.wording import figure
from datapipe.report.data import RunData

UNITS = {"latency": "ms", "throughput": "items/s"}
LONGEST_S = 15.0
"""Between two snapshots; of more, nothing is known of the time between."""


def rows(run: RunData) -> Sequence[tuple[str, str]]:
    """Names and figures."""
    return [
        ("objective", _objective(run)),
        ("met", _met(run)),
        *_items(run),
        ("workers", _workers(run)),
        ("CPU of the stages", _cpu(run)),
        ("decisions, switches", f"{len(run.decisions)}, {len(run.switches)}"),
    ]


def _objective(run: RunData) -> str:
    """The last one that was set."""
    known = run.snapshots.filter(pc.is_valid(run.snapshots.column("slo_metric")))
    if not known.num_rows:
        return "none"
    metric, target, bound = (known.column(f"slo_{name}")[-1].as_py() for name in ("metric", "target", "bound"))
    unit = UNITS.get(metric, "")
    told = "the input rate" if target is None else f"{figure(target, 4)} {unit}"
    return f"{metric} {told}" + ("" if bound is None else f" (violated beyond {figure(bound, 4)} {unit})")


def _met(run: RunData) -> str:
    verdicts = run.snapshots.column("slo_status").to_pylist()
    met, judged = verdicts.count("met"), sum(verdict in ("met", "violated", "infeasible") for verdict in verdicts)
    return f"{met / judged:.1%} of the time with a verdict" if judged else "no verdict"


def _items(run: RunData) -> Sequence[tuple[str, str]]:
    fates = run.items.column("outcome").to_pylist()
    lost = ", ".join(f"{fates.count(fate):,} {fate}" for fate in ("failed", "shed") if fate in fates)
    delivered = run.items.filter(pc.equal(run.items.column("outcome"), "delivered"))
    if not delivered.num_rows:
        return [("items", f"0 delivered{lost and f', {lost}'}")]
    out, came = (delivered.column(name).cast(pa.int64()).to_numpy() for name in ("delivered", "arrived"))
    latency_ms = (out - came) / 1e3
    span_s = (out.max() - out.min()) / 1e6
    rate = f", {figure(delivered.num_rows / span_s)} a second" if span_s > 0 else ""
    p95 = float(np.percentile(latency_ms, 95))
    return [
        ("items", f"{delivered.num_rows:,} delivered{rate}{lost and f', {lost}'}"),
        ("latency", f"mean {figure(float(latency_ms.mean()))} ms, 95th percentile {figure(p95)} ms"),
    ]


def _workers(run: RunData) -> str:
    at_s, workers = run.seconds(run.snapshots, "at"), np.asarray(run.snapshots.column("workers").to_pylist(), float)
    lengths_s = np.minimum(np.diff(at_s), LONGEST_S)
    if not lengths_s.sum() > 0:
        return "not known"
    worker_s = float(workers[:-1] @ lengths_s)
    return (
        f"{figure(worker_s / float(lengths_s.sum()))} on average, {figure(worker_s)} worker-seconds, spares among them"
    )


def _cpu(run: RunData) -> str:
    stages: Any = run.items.column("stages").combine_chunks().flatten()
    cpu_s = (pc.sum(stages.field("cpu_ns")).as_py() or 0) / 1e9
    length_s = float(run.seconds(run.snapshots, "at")[-1])
    cores = f", {figure(cpu_s / length_s, 2)} cores on average" if length_s > 0 else ""
    return f"{figure(cpu_s)} s{cores}"
