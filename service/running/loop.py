"""The loop of a running app: observe, estimate, decide, apply. The same in real time and in the simulation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from control.decisions import ResetWindow, SwitchTo
from control.journal import Journal, SwitchRecord
from control.manager import Manager, TickResult
from control.output_gaps import OutputGaps
from profiler.drain import DrainEstimator
from profiler.drain_kinds import Conditions, DrainSample, InFlight, ScheduleSample
from profiler.monitor import Monitor, Running
from profiler.service_time import stage_costs
from profiler.size_law import SizeLaws
from profiler.snapshot import Snapshot
from runtime.dispatch.events import (
    Delivered,
    DispatcherView,
    Outcome,
    Shed,
    StartFailed,
    SwitchEnded,
    SwitchOverdue,
    SwitchStyle,
    TaskTimed,
    WorkersChanged,
)
from runtime.engine import Engine

TICK_S = 0.25
"""The manager looks four times a second."""

Sink = Callable[[Delivered | Shed], None]


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """How the loop measures and switches."""

    cores: int
    """Cores that the workers may use."""
    style: SwitchStyle = SwitchStyle.SEAMLESS
    drain_sample: DrainSample = field(default_factory=ScheduleSample)


class ControlLoop:
    """Carries outcomes to the monitor, snapshots to the manager, and its commands to the engine."""

    def __init__(
        self, engine: Engine, monitor: Monitor, manager: Manager, settings: LoopSettings, sink: Sink = lambda _: None
    ) -> None:
        self.engine = engine
        self.monitor = monitor
        self.manager = manager
        self.journal = Journal()
        self.drain = DrainEstimator()
        self._sizes = SizeLaws()
        self.gaps = OutputGaps()
        self.snapshot: Snapshot | None = None
        self.result: TickResult | None = None
        self.start_failure: StartFailed | None = None
        self.tap: Callable[[Outcome], None] | None = None
        """Is shown every outcome; for telemetry."""
        self._settings = settings
        self._sink = sink
        self._next_tick_s = engine.now_s
        self._stable_since_s = engine.now_s
        self._switch_record = SwitchRecord(None, None)

    def step(self, until_s: float) -> list[Outcome]:
        """Waits for something to happen until ``until_s`` at the latest, and ticks when it is time."""
        outcomes = self.engine.advance(min(until_s, self._next_tick_s))
        for outcome in outcomes:
            self._observe(outcome)
        now_s = self.engine.now_s
        if now_s >= self._next_tick_s:
            self._next_tick_s = max(self._next_tick_s + TICK_S, now_s)
            self.tick(now_s)
        return outcomes

    def tick(self, now_s: float) -> None:
        """One turn of the manager."""
        view = self.engine.view()
        self.snapshot = self._snapshot(now_s, view)
        self._sample_drain(view, self.snapshot)
        self.result = self.manager.tick(now_s, self.snapshot)
        self.journal.record(self.result.decision)
        for decision in self.manager.outcomes():
            self.journal.record_outcome(decision)
        for command in self.result.commands:
            if isinstance(command, SwitchTo):
                self._switch(command, self.snapshot)
            elif isinstance(command, ResetWindow):
                self.monitor.reset_window(now_s)

    # --- observe ----------------------------------------------------------------------------------------------------

    def _observe(self, outcome: Outcome) -> None:
        if self.tap is not None:
            self.tap(outcome)
        if isinstance(outcome, TaskTimed):
            self.monitor.record_timings(outcome.at_s, outcome.timings)
            self._note_size(outcome)
            if outcome.hop_s is not None:
                self.monitor.record_hop(outcome.hop_s)
        elif isinstance(outcome, Delivered):
            self._delivered(outcome)
        elif isinstance(outcome, Shed):
            self._sink(outcome)
        elif isinstance(outcome, SwitchEnded):
            self._switched(outcome)
        elif isinstance(outcome, SwitchOverdue):
            self.drain.overdue()
        elif isinstance(outcome, WorkersChanged):
            if outcome.lost:
                self.manager.workers_lost(outcome.at_s, outcome.reason)
            self.start_failure = None if outcome.joined else self.start_failure
        elif isinstance(outcome, StartFailed):
            self.start_failure = outcome

    def _note_size(self, task: TaskTimed) -> None:
        stages = tuple(timing.stage for timing in task.timings)
        self._sizes.add(stages, task.size_bytes, sum(timing.wall_s for timing in task.timings))

    def _delivered(self, item: Delivered) -> None:
        self.gaps.delivered(item.at_s, item.composition)
        if item.error is None:
            self.monitor.record_delivery(item.at_s, item.arrived_s, item.started_s, item.due_s)
        self._sink(item)

    def _switched(self, ended: SwitchEnded) -> None:
        self.drain.end(ended.drain_actual_s)
        self.journal.record_switch(self._switch_record, ended)
        self.gaps.switch_ended()
        if ended.error is not None:
            self.manager.switch_failed(ended.error)
            return
        self.drain.restart()
        self._stable_since_s = ended.at_s
        self.monitor.reset_window(ended.at_s)

    # --- estimate ---------------------------------------------------------------------------------------------------

    def _snapshot(self, now_s: float, view: DispatcherView) -> Snapshot:
        running = Running(
            view.composition.name,
            view.switching,
            self._stable_since_s,
            view.queued,
            view.in_flight,
            len(view.workers),
            self._settings.cores,
        )
        return self.monitor.snapshot(now_s, running)

    def _sample_drain(self, view: DispatcherView, snapshot: Snapshot) -> None:
        if not view.switching:
            now = self._conditions(snapshot)
            self.drain.sample(self._settings.drain_sample.sample(_left(view), now) if now and view.in_flight else None)

    def _conditions(self, snapshot: Snapshot) -> Conditions | None:
        """Those under which items are drained; None where too little is known."""
        if not snapshot.stages:
            return None
        cores = self._settings.cores
        costs = stage_costs(snapshot.stages, cores)
        return Conditions(costs, cores, snapshot.hop_s, self._sizes, self.drain.calibration)

    # --- apply ------------------------------------------------------------------------------------------------------

    def _switch(self, command: SwitchTo, snapshot: Snapshot) -> None:
        view, now = self.engine.view(), self._conditions(snapshot)
        sample_s = self._settings.drain_sample.at_switch(_left(view), now) if now and view.in_flight else None
        expected = self.drain.begin(sample_s)
        mean_s, bound_s = (expected.srtt_s, expected.bound_s) if expected else (None, None)
        self._switch_record = SwitchRecord(mean_s, bound_s)
        self.gaps.switch_begins(self._switch_record)
        costs = stage_costs(snapshot.stages, self._settings.cores)
        first_s = sum(cost.service_s for cost in costs.values()) + snapshot.hop_s * len(command.composition.groups)
        self.engine.switch(
            command.composition,
            self._settings.style,
            drain_estimate_s=bound_s or 0.0,
            drain_mean_s=mean_s or 0.0,
            first_result_s=first_s,
        )


def _left(view: DispatcherView) -> InFlight:
    return InFlight(view.composition, view.in_flight, view.pending)
