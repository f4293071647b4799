"""What a running app writes down: items as they leave, the manager's turns, decisions and switches.

Runs in the loop's thread and does as little there as it can; columns are made in the writer's thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from control.manager import TickResult
from datapipe.telemetry.retention import Keep
from datapipe.telemetry.writer import Origin, TelemetryWriter, WriterSettings
from profiler.snapshot import Snapshot
from runtime.dispatch.outcomes import Delivered, Outcome, Shed, TaskTimed
from service.bodies.spec import TelemetrySpec
from service.bodies.status import TelemetryStatus
from service.running.loop import ControlLoop
from service.running.recording.telemetry_columns import columns
from service.running.recording.telemetry_rows import Record, Rows
from service.running.recording.timings import Timings

LATE = 3
"""How many known decisions and switches are looked at again: outcome and gap come after them."""


class Telemetry:
    """Of the runner that ``origin`` names. ``epoch_s``: the wall clock at 0 of the loop's clock."""

    def __init__(self, spec: TelemetrySpec, origin: Origin, epoch_s: float) -> None:
        self._timings = Timings()
        self._target_us: int | None = None
        self._threshold: float | None = None
        self._known: dict[tuple[str, int], Record] = {}
        settings = WriterSettings(keep=Keep(spec.keep_days, spec.keep_mb))
        self._writer = TelemetryWriter(Path(spec.folder), origin, columns(epoch_s), settings)
        self._rows = Rows(origin.run, epoch_s)

    # --- in the loop's thread ---------------------------------------------------------------------------------------

    def observe(self, outcome: Outcome) -> None:
        """One outcome of the dispatcher; the hot path."""
        if isinstance(outcome, TaskTimed):
            self._timings.add(outcome.serial, outcome.items, outcome.timings)
        elif isinstance(outcome, Delivered):
            fate = "delivered" if outcome.error is None else "failed"
            self._left(outcome, outcome.since_s, outcome.composition, fate)
        elif isinstance(outcome, Shed):
            self._left(outcome, outcome.arrived_s, "", "shed")

    def _left(self, out: Delivered | Shed, since_s: Sequence[float], composition: str, fate: str) -> None:
        # Plain values: the garbage collector does not look at them again while they wait.
        common = (out.at_s, composition, fate, out.count, self._target_us, self._threshold)
        parts = self._timings.pop(out.serial, out.count)
        if len(parts) == 1:
            self._writer.put("items", (out.serial, since_s, out.arrived_s, *common, parts[0][1]), out.count)
            return
        begin = 0
        for count, timings in parts:
            end = begin + count
            times = (out.serial + begin, since_s[begin:end], out.arrived_s[begin:end])
            self._writer.put("items", (*times, *common, timings), count)
            begin = end

    def tick(self, loop: ControlLoop, snapshot: Snapshot, result: TickResult) -> None:
        """One turn of the manager."""
        objective = loop.manager.objective
        target_ms = None if objective is None else objective.item_target_ms
        self._target_us = None if target_ms is None else round(target_ms * 1e3)
        self._threshold = None if objective is None or target_ms is None else objective.slo.threshold
        self._writer.put("snapshots", self._rows.snapshot(loop, snapshot, result))
        self._news("decisions", [self._rows.decision(loop, each) for each in list(loop.journal.decisions)[-LATE:]])
        first = loop.journal.switch_total - len(loop.journal.switches) + 1
        numbered = list(enumerate(loop.journal.switches, first))[-LATE:]
        self._news("switches", [self._rows.switch(number, each) for number, each in numbered])

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
