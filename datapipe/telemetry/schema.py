"""The telemetry files of a runner: one Arrow schema for each kind of record, with its units and its version.

Layout: ``DIR/<kind>/<app>--<run>-<number>.parquet``, where the number begins with the epoch; a file that is being
written has a leading dot. Times are whole numbers (microseconds since 1970, nanoseconds of work), so that sums do not
depend on the order of addition.
"""

from typing import Any

import pyarrow as pa

VERSION = 2
"""The version of all schemas together. A new version only adds nullable columns: a reader finds columns by name, takes
null for those that an older file lacks, and refuses files newer than itself. 2: runs, costs, versions."""
VERSION_KEY = b"recompose.telemetry.version"
UNIT_KEY = b"unit"
SUFFIX = ".parquet"
SEPARATOR = "--"
"""The separator of the app's and the run's name in a file name."""

INSTANT = pa.timestamp("us", tz="UTC")


def _field(name: str, kind: Any, unit: str, nullable: bool = True) -> Any:
    return pa.field(name, kind, nullable, metadata={UNIT_KEY: unit.encode()})


OF_RUN = (_field("app", pa.string(), "name of the app"), _field("run", pa.string(), "name of the run, unique"))
EPOCH = _field(
    "epoch", pa.int64(), "of the run: counts the runners since the app was started, from 1; null in older files"
)

APP_VERSION = _field("app_version", pa.string(), "hash of the app's source; null in older files")
WRITTEN = _field("written", INSTANT, "instant of the record; the last of a number holds; null in older files")
COMPOSITION_VERSION = _field(
    "composition_version", pa.string(), "hash of the composition's form; null in older files, and before it was active"
)

STAGE = pa.struct([
    _field("stage", pa.string(), "name of the stage"),
    _field("wall_ns", pa.int64(), "ns, wall time of its calls on this item"),
    _field("cpu_ns", pa.int64(), "ns, CPU time of its calls on this item"),
])  # fmt: skip

ITEMS = [
    *OF_RUN,
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
    *(EPOCH, APP_VERSION, COMPOSITION_VERSION),
]

SNAPSHOT_STAGE = pa.struct([
    _field("stage", pa.string(), "name of the stage"),
    _field("service_ms", pa.float64(), "ms, mean wall time while busy"),
    _field("cpu_ms", pa.float64(), "ms, mean CPU time"),
    _field("bottleneck", pa.bool_(), "tagged as bottleneck"),
])  # fmt: skip

SNAPSHOTS = [
    *OF_RUN,
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
    *(EPOCH, APP_VERSION, COMPOSITION_VERSION),
]

DECISIONS = [
    *OF_RUN,
    _field("id", pa.int64(), "number of the decision in its run; the last record of a number holds"),
    _field("at", INSTANT, "instant of the decision"),
    _field("trigger", pa.string(), "what set it off"),
    _field("from", pa.string(), "composition before"),
    _field("to", pa.string(), "composition after"),
    _field("reason", pa.string(), "a sentence"),
    _field("body", pa.string(), "JSON as in /decisions: candidates, figures, outcome"),
    *(EPOCH, APP_VERSION, WRITTEN),
]

SWITCHES = [
    *OF_RUN,
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
    *(EPOCH, APP_VERSION, WRITTEN),
]

RUNS = [
    *OF_RUN,
    _field("at", INSTANT, "instant of the record; the last record of a run and epoch holds"),
    _field("began", INSTANT, "instant at which its runner began"),
    _field("objective", pa.string(), "as it was asked for; null without one"),
    _field("source", pa.string(), "kind of the source"),
    _field("product", pa.string(), "version of Recompose"),
    _field("accepted", pa.int64(), "items so far"),
    _field("delivered", pa.int64(), "items so far"),
    _field("failed", pa.int64(), "items so far: a stage raised, or the result was not written"),
    _field("shed", pa.int64(), "items so far"),
    _field("refused", pa.int64(), "rows and messages so far that the app did not take"),
    _field("missed", pa.int64(), "items so far that were due and never read"),
    _field("losses", pa.int64(), "workers so far that died"),
    _field("first_error", pa.string(), "of the first item that failed"),
    EPOCH,
    APP_VERSION,
]

COSTS = [
    *OF_RUN,
    _field("at", INSTANT, "instant at which the time of the record ends"),
    _field("composition", pa.string(), "name of the one that is active then"),
    _field("worker_s", pa.float64(), "s of workers in use, since the record before"),
    _field("cpu_s", pa.float64(), "s of CPU of the workers on the runner's machine, since the record before"),
    _field("workers", pa.int64(), "workers in use then"),
    _field("spares", pa.int64(), "warm workers without work then"),
    _field("cores", pa.float64(), "cores that the workers may use"),
    *(EPOCH, APP_VERSION, COMPOSITION_VERSION),
]


SCHEMAS: dict[str, Any] = {
    kind: pa.schema(fields, metadata={VERSION_KEY: str(VERSION).encode()})
    for kind, fields in {
        "items": ITEMS,
        "snapshots": SNAPSHOTS,
        "decisions": DECISIONS,
        "switches": SWITCHES,
        "runs": RUNS,
        "costs": COSTS,
    }.items()
}


INSTANT_OF = {"items": "delivered", **dict.fromkeys(("snapshots", "decisions", "switches", "runs", "costs"), "at")}
"""The column with the time of a record, by kind."""

NUMBERED = {"decisions": "id", "switches": "number"}
"""The column with the number of a record that may be written again, by kind: the last one is valid."""


def version_of(schema: Any) -> int | None:
    """Return the version in a file's schema; None for a file that is not telemetry."""
    found = (schema.metadata or {}).get(VERSION_KEY)
    return None if found is None else int(found)
