"""What a running app writes down: items as they leave, the manager's turns, decisions and switches.

Runs in the loop's thread and does as little there as it can; columns are made in the writer's thread.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from control.decisions import Decision
from control.journal import SwitchRecord
from control.manager import TickResult
from datapipe.telemetry.retention import Keep
from datapipe.telemetry.schema import INSTANT, STAGE
from datapipe.telemetry.writer import TelemetryWriter, WriterSettings
from profiler.service_time import bottlenecks
from profiler.snapshot import Snapshot
from runtime.dispatch.outcomes import Delivered, Outcome, Shed, TaskTimed
from service.bodies import decisions as bodies
from service.bodies.base import ms, plain, time_text
from service.bodies.spec import TelemetrySpec
from service.bodies.status import TelemetryStatus
from service.running.loop import ControlLoop

LATE = 3
"""How many known decisions and switches are looked at again: outcome and gap come after them."""
Record = tuple[Any, ...]


class Telemetry:
    """Of one ``run`` of ``app``. ``epoch_s``: the wall clock at 0 of the loop's clock."""

    def __init__(self, spec: TelemetrySpec, app: str, run: str, epoch_s: float) -> None:
        self._epoch_s = epoch_s
        self._timings: dict[int, list[Any]] = {}
        """Of items that have not left: stage, wall and CPU time in seconds, one after the other."""
        self._target_us: int | None = None
        self._threshold: float | None = None
        self._known: dict[tuple[str, int], Record] = {}
        columns = {
            "items": self._item_columns,
            "snapshots": _snapshot_columns,
            "decisions": _rows(DECISION_FIELDS),
            "switches": _rows(SWITCH_FIELDS),
        }
        settings = WriterSettings(keep=Keep(spec.keep_days, spec.keep_mb))
        self._writer = TelemetryWriter(Path(spec.folder), app, run, columns, settings)

    # --- in the loop's thread ---------------------------------------------------------------------------------------

    def observe(self, outcome: Outcome) -> None:
        """One outcome of the dispatcher; the hot path."""
        if isinstance(outcome, TaskTimed):
            known = self._timings.setdefault(outcome.serial, [])
            for timing in outcome.timings:
                known += (timing.stage, timing.wall_s, timing.cpu_s)
        elif isinstance(outcome, Delivered):
            fate = "delivered" if outcome.error is None else "failed"
            self._item(outcome, outcome.composition, fate)
        elif isinstance(outcome, Shed):
            self._item(outcome, "", "shed")

    def _item(self, outcome: Delivered | Shed, composition: str, fate: str) -> None:
        # A tuple of plain values: the garbage collector does not look at it again while it waits.
        timings = tuple(self._timings.pop(outcome.serial, ()))
        due_s = outcome.due_s if isinstance(outcome, Delivered) else None
        since_s = outcome.arrived_s if due_s is None else due_s
        times = (outcome.serial, since_s, outcome.arrived_s, outcome.at_s)
        self._writer.put("items", (*times, composition, fate, self._target_us, self._threshold, timings))

    def tick(self, loop: ControlLoop, snapshot: Snapshot, result: TickResult) -> None:
        """One turn of the manager."""
        objective = loop.manager.objective
        target_ms = None if objective is None else objective.item_target_ms
        self._target_us = None if target_ms is None else round(target_ms * 1e3)
        self._threshold = None if objective is None or target_ms is None else objective.slo.threshold
        self._writer.put("snapshots", self._snapshot(loop, snapshot, result))
        self._news("decisions", [self._decision(loop, each) for each in list(loop.journal.decisions)[-LATE:]])
        first = loop.journal.switch_total - len(loop.journal.switches) + 1
        numbered = list(enumerate(loop.journal.switches, first))[-LATE:]
        self._news("switches", [self._switch(number, each) for number, each in numbered])

    def _news(self, kind: str, records: Sequence[Record]) -> None:
        """Puts those that are new or say something new. The first field is the number."""
        for record in records:
            if self._known.get((kind, record[0])) != record:
                self._known[kind, record[0]] = record
                self._known.pop((kind, record[0] - LATE), None)
                self._writer.put(kind, record)

    def status(self) -> TelemetryStatus:
        writer = self._writer
        return TelemetryStatus(written=writer.written, lost=writer.lost, buffered=writer.buffered, fault=writer.fault)

    def close(self) -> None:
        self._writer.close()

    def _snapshot(self, loop: ControlLoop, snapshot: Snapshot, result: TickResult) -> Record:
        objective, latency, demand = loop.manager.objective, snapshot.latency, snapshot.demand
        tagged = bottlenecks(snapshot.stages)
        stages = [(s.name, s.service_time_s * 1e3, s.cpu_time_s * 1e3, s.name in tagged) for s in snapshot.stages]
        rate = snapshot.input_rate_per_s
        return (
            self._micros(snapshot.now_s), snapshot.composition, str(result.state), snapshot.switching,
            snapshot.input_rate_per_s, snapshot.throughput_per_s,
            latency and latency.mean_s * 1e3, latency and latency.p95_s * 1e3,
            snapshot.queued, snapshot.in_flight, snapshot.workers_alive,
            objective and objective.slo.metric, objective and objective.target(rate),
            objective and objective.bound(rate), str(result.slo_status),
            ms(loop.handovers.drain.status().estimate_s), stages,
            demand and demand.offered_per_s, demand and demand.admitted_per_s, demand and demand.missed,
            demand and demand.lag_s,
        )  # fmt: skip

    def _decision(self, loop: ControlLoop, decision: Decision) -> Record:
        told = bodies.Decision.of(loop.journal.with_switches(decision), self._at, self._writer.run)
        body = json.dumps(plain(told), allow_nan=False)
        head = (decision.id, self._micros(decision.at_s), str(decision.trigger))
        return (*head, decision.from_name, decision.to_name, decision.reason, body)

    def _switch(self, number: int, record: SwitchRecord) -> Record:
        ended = record.ended
        assert ended is not None, "the journal notes a switch when it has ended"
        figures = (record.gap_s, record.drain_mean_s, record.drain_estimate_s, ended.drain_actual_s)
        head = (number, self._micros(ended.at_s), ended.from_name, ended.to_name, str(ended.style))
        return (*head, *map(ms, figures), ended.error)

    def _micros(self, at_s: float) -> int:
        return round((self._epoch_s + at_s) * 1e6)

    def _at(self, at_s: float) -> str:
        return time_text(self._epoch_s + at_s)

    # --- in the writer's thread -------------------------------------------------------------------------------------

    def _item_columns(self, records: Sequence[Record]) -> dict[str, Any]:
        serials, due, read, delivered, compositions, fates, targets, thresholds, timings = zip(*records, strict=True)
        return {
            "serial": pa.array(serials, pa.int64()),
            "arrived": self._instants(due),
            "read": self._instants(read),
            "delivered": self._instants(delivered),
            "composition": pa.array(compositions, pa.string()),
            "outcome": pa.array(fates, pa.string()),
            "batch": pa.array(np.ones(len(records), np.int32)),
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


def _rows(fields: Sequence[str]) -> Callable[[Sequence[Record]], dict[str, Any]]:
    def columns(records: Sequence[Record]) -> dict[str, Any]:
        return dict(zip(fields, map(list, zip(*records, strict=True)), strict=True))

    return columns


def _snapshot_columns(records: Sequence[Record]) -> dict[str, Any]:
    columns = _rows(SNAPSHOT_FIELDS)(records)
    columns["stages"] = [[dict(zip(SNAPSHOT_STAGE_FIELDS, s, strict=True)) for s in row] for row in columns["stages"]]
    return columns
