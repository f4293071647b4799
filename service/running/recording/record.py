"""What is kept of a run as it goes: its samples, its summary, its telemetry."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING

from service.bodies.spec import RunSpec
from service.bodies.status import Sample, Status
from service.running.building.run import Run
from service.running.recording.clock import WallClock
from service.running.recording.history import History
from service.running.recording.summary import RunningSummary
from service.running.recording.usage import Usage

if TYPE_CHECKING:
    from service.running.recording.telemetry import Telemetry


class Record:
    """Belongs to the loop's thread."""

    def __init__(self, clock: WallClock, telemetry: Telemetry | None = None) -> None:
        self.clock, self.telemetry = clock, telemetry
        self.history = History()
        self.summary = RunningSummary()
        self.usage = Usage()

    def note(self, run: Run, status: Callable[[], Status]) -> None:
        """Takes what is new after a step; ``status`` is asked for when a sample is due."""
        loop = run.loop
        result, snapshot = loop.result, loop.snapshot
        if result is None or snapshot is None:
            return
        if run.intake.reading:
            now_s = monotonic()
            self.history.note(now_s, lambda: Sample.of(status(), self.clock.text(now_s)))
        if self.summary.note(snapshot, result):
            self.usage.note(snapshot.now_s, loop.engine.view().workers)
            run.sink.flush()
            if self.telemetry is not None:
                self.telemetry.tick(loop, snapshot, result)

    def close(self) -> None:
        if self.telemetry is not None:
            self.telemetry.close()


def record_of(spec: RunSpec, run: Run) -> Record:
    """With telemetry of the run's loop, if any is to be written."""
    clock = WallClock.now()
    if spec.telemetry is None:
        return Record(clock)
    from datapipe.telemetry.writer import Origin  # imported here: a run without telemetry needs no Arrow
    from service.running.recording.telemetry import Telemetry

    assert spec.run is not None, "a runner has given it a name"
    telemetry = Telemetry(spec.telemetry, Origin(spec.app, spec.run, spec.epoch), clock.epoch_s)
    run.loop.tap = telemetry.observe
    return Record(clock, telemetry)
