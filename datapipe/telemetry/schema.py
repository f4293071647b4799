"""The files that a runner leaves: one Arrow schema for each kind of record, with its units and its version.

Layout: ``DIR/<kind>/<app>--<run>-<number>.parquet``; a file that is being written begins with a dot. Times are whole
numbers (epoch microseconds, nanoseconds of work), so that sums do not depend on the order in which they are made.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

VERSION = 1
"""Of all schemas together; a reader refuses what is newer than itself."""
VERSION_KEY = b"recompose.telemetry.version"
UNIT_KEY = b"unit"
SUFFIX = ".parquet"
SEPARATOR = "--"
"""Between the app's name and the run's in the name of a file."""

INSTANT = pa.timestamp("us", tz="UTC")


def _field(name: str, kind: Any, unit: str, nullable: bool = True) -> Any:
    return pa.field(name, kind, nullable, metadata={UNIT_KEY: unit.encode()})


EPOCH = _field(
    "epoch", pa.int64(), "of the run: counts the runners since the app was started, from 1; null in older files"
)

STAGE = pa.struct([
    _field("stage", pa.string(), "name of the stage"),
    _field("wall_ns", pa.int64(), "ns, wall time of its calls on this item"),
    _field("cpu_ns", pa.int64(), "ns, CPU time of its calls on this item"),
])  # fmt: skip

ITEMS = [
    _field("app", pa.string(), "name of the app"),
    _field("run", pa.string(), "name of the run, unique"),
    _field("serial", pa.int64(), "place in the run's input, from 0"),
    _field("arrived", INSTANT, "instant since which a user waited: it was due, or came by itself"),
    _field("delivered", INSTANT, "instant, at the sink; or of its place there"),
    _field("composition", pa.string(), "name; empty for a shed item"),
    _field("outcome", pa.string(), "delivered, failed or shed"),
    _field(
        "batch", pa.int32(), "items of the micro-batch that this item ends; 0 before the end of one, 1 without batches"
    ),
    _field("target_us", pa.int64(), "us, latency target of the SLO in force; null without one"),
    _field("threshold", pa.float64(), "ratio, of that SLO"),
    _field("stages", pa.list_(STAGE), "one for each stage that ran"),
    _field("read", INSTANT, "instant, when the source read it; null in older files, which counted from then"),
    EPOCH,
]

SNAPSHOT_STAGE = pa.struct([
    _field("stage", pa.string(), "name of the stage"),
    _field("service_ms", pa.float64(), "ms, mean wall time while busy"),
    _field("cpu_ms", pa.float64(), "ms, mean CPU time"),
    _field("bottleneck", pa.bool_(), "tagged as bottleneck"),
])  # fmt: skip

SNAPSHOTS = [
    _field("app", pa.string(), "name of the app"),
    _field("run", pa.string(), "name of the run, unique"),
    _field("at", INSTANT, "instant of the manager's turn"),
    _field("composition", pa.string(), "name of the active one"),
    _field("state", pa.string(), "state of the manager"),
    _field("switching", pa.bool_(), "a switch is under way"),
    _field("input_rate_per_s", pa.float64(), "items/s offered"),
    _field("throughput_per_s", pa.float64(), "items/s delivered, over the monitor's window, across switches"),
    _field("latency_mean_ms", pa.float64(), "ms, over the monitor's window"),
    _field("latency_p95_ms", pa.float64(), "ms, over the monitor's window"),
    _field("queued", pa.int64(), "items that wait for admission"),
    _field("in_flight", pa.int64(), "items inside the composition"),
    _field("workers", pa.int64(), "processes alive"),
    _field("slo_metric", pa.string(), "latency or throughput; null without an SLO"),
    _field("slo_target", pa.float64(), "ms or items/s"),
    _field("slo_bound", pa.float64(), "ms or items/s, beyond which it is violated"),
    _field("slo_status", pa.string(), "met, violated, infeasible, unknown or none"),
    _field("drain_estimate_ms", pa.float64(), "ms, what a drain would take at most"),
    _field("stages", pa.list_(SNAPSHOT_STAGE), "one for each stage that was measured"),
    _field("offered_per_s", pa.float64(), "items/s due, or come by themselves, over the monitor's window"),
    _field("admitted_per_s", pa.float64(), "items/s, over the monitor's window"),
    _field("missed", pa.int64(), "items that were due and never read, since the start"),
    _field("lag_s", pa.float64(), "s for which the next item to be read has been due"),
    _field("latency_p50_ms", pa.float64(), "ms, over the monitor's window"),
    _field("latency_p99_ms", pa.float64(), "ms, over the monitor's window"),
    _field("latency_share_ms", pa.float64(), "ms, within which the share of the items is that the SLO asks for"),
    EPOCH,
]

DECISIONS = [
    _field("app", pa.string(), "name of the app"),
    _field("run", pa.string(), "name of the run, unique"),
    _field("id", pa.int64(), "number of the decision in its run; the last record of a number holds"),
    _field("at", INSTANT, "instant of the decision"),
    _field("trigger", pa.string(), "what set it off"),
    _field("from", pa.string(), "composition before"),
    _field("to", pa.string(), "composition after"),
    _field("reason", pa.string(), "a sentence"),
    _field("body", pa.string(), "JSON as in /decisions: candidates, figures, outcome"),
    EPOCH,
]

SWITCHES = [
    _field("app", pa.string(), "name of the app"),
    _field("run", pa.string(), "name of the run, unique"),
    _field("number", pa.int64(), "of the switch in its run, from 1; the last record of a number holds"),
    _field("at", INSTANT, "instant of its end"),
    _field("from", pa.string(), "composition before"),
    _field("to", pa.string(), "composition after"),
    _field("style", pa.string(), "seamless or drain"),
    _field("gap_ms", pa.float64(), "ms between the old one's last result and the new one's first"),
    _field("drain_mean_ms", pa.float64(), "ms, expected when it began"),
    _field("drain_estimate_ms", pa.float64(), "ms, upper bound when it began"),
    _field("drain_actual_ms", pa.float64(), "ms; null for a drain cut short, disturbed or empty"),
    _field("error", pa.string(), "why it failed; null if it did not"),
    EPOCH,
]


def _schema(fields: list[Any]) -> Any:
    return pa.schema(fields, metadata={VERSION_KEY: str(VERSION).encode()})


SCHEMAS: dict[str, Any] = {
    "items": _schema(ITEMS),
    "snapshots": _schema(SNAPSHOTS),
    "decisions": _schema(DECISIONS),
    "switches": _schema(SWITCHES),
}


def version_of(schema: Any) -> int | None:
    """The version in a file's schema; None for a file that is not telemetry."""
    found = (schema.metadata or {}).get(VERSION_KEY)
    return None if found is None else int(found)
