"""The loop of a running app: observe, estimate, decide, apply; the same in real time and in the simulation."""

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from compositions.model import Composition, Loads, Room, held_by, loads_of
from compositions.resources import need_of
from control.decisions import CallOff, ResetWindow, State, SwitchTo
from control.journal import Journal, OutputGaps, SwitchRecord
from control.manager import Manager, TickResult
from profiler.drain import DrainEstimator
from profiler.drain_samples import Conditions, DrainSample, InFlight, ScheduleSample, SizeLaws
from profiler.monitor import Monitor, Running
from profiler.service_time import GpuUse, stage_costs
from profiler.snapshot import Snapshot
from runtime.dispatch.events import SwitchStyle
from runtime.dispatch.outcomes import (
    Delivered,
    Outcome,
    OutOfMemory,
    Shed,
    StartFailed,
    SwitchEnded,
    SwitchOverdue,
    TaskTimed,
    WorkersChanged,
)
from runtime.dispatch.views import DispatcherView
from runtime.engine import Engine

LOSSES_KEPT = 20
START_FAILURES = 3
"""Number of workers in a row that may fail to start, with none alive, before the app fails."""
PASSING_S = 30.0
"""Time for which failed starts are tolerated if another attempt may succeed, in seconds."""
TICK_S = 0.25
"""Interval of the manager's turns, in seconds, except at rest."""
REST_S, LIGHT = 1.0, 0.1
"""Interval at rest, in seconds: the app is stable, no item waits, and its stages are busy for less than this share of
the time. A turn takes up to 5 ms, so twenty apps at rest would otherwise use 0.4 cores."""
SETTLED_S = 5.0
"""Time after a start or a change without rest, in seconds, so that requests get new figures."""

Sink = Callable[[Delivered | Shed], None]


class Bundler:
    """Decides on the bundle size; this one leaves it unchanged."""

    def decide(self, snapshot: Snapshot, view: DispatcherView, manager: Manager) -> None:
        """Decide at every turn of the manager."""

    def timed(self, task: TaskTimed) -> None:
        """Record the times of a finished task."""

    def delivered(self, out: Delivered) -> None:
        """Record items that left."""

    def out_of_memory(self, failed: OutOfMemory) -> None:
        """Record that a bundle was too large for the memory of a stage."""


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """The settings of the loop: how it measures and switches."""

    cores: Callable[[], float]
    """Function that returns the cores that workers may use now, of all their nodes."""
    style: SwitchStyle = SwitchStyle.SEAMLESS
    drain_sample: DrainSample = field(default_factory=ScheduleSample)
    room: Callable[[], Room] = dict
    """Function that returns, by class that reserves resources, the number of workers that the nodes could hold."""
    gpus_busy: Callable[[], float | None] = lambda: None
    """Function that returns the number of busy GPUs of the nodes; None: unknown."""
    seen_at_once: bool = True
    """True if outputs of the dispatcher are visible at once; otherwise ``ControlLoop.seen`` reports it."""
    tick_s: float = TICK_S


@dataclass(slots=True)
class WorkerFailures:
    start_failure: StartFailed | None = None
    """The last failed start; None since a worker joined."""
    since_s: float = 0.0
    """Time of the first failed start in a row."""
    count: int = 0
    losses: deque[WorkersChanged] = field(default_factory=lambda: deque(maxlen=LOSSES_KEPT))

    def not_started(self, failure: StartFailed) -> None:
        if self.start_failure is None:
            self.since_s = failure.at_s
        self.start_failure = failure

    def given_up(self, now_s: float, *, kept_up: bool) -> str | None:
        """Return why no worker can start. Temporary failures are tolerated for a while, or always if ``kept_up``."""
        failed = self.start_failure
        if failed is None or failed.consecutive < START_FAILURES:
            return None
        passes = failed.passing and (kept_up or now_s < self.since_s + PASSING_S)
        return None if passes else failed.reason


@dataclass(slots=True)
class _Turn:
    """The next turn of the manager; a turn that was requested is not left out."""

    due_s: float
    asked: bool = False


class ControlLoop:
    """Carries outcomes to the monitor, snapshots to the manager, and its commands to the engine."""

    def __init__(
        self,
        engine: Engine,
        monitor: Monitor,
        manager: Manager,
        settings: LoopSettings,
        sink: Sink = lambda _: None,
        bundler: Bundler | None = None,
    ) -> None:
        self.engine = engine
        self.monitor = monitor
        self.manager = manager
        self.journal = Journal()
        self.handovers = Handovers(self.journal, settings.drain_sample)
        self.snapshot: Snapshot | None = None
        self.result: TickResult | None = None
        self.failures = WorkerFailures()
        self.tap: Callable[[Outcome], None] | None = None
        """Called with every outcome; for telemetry."""
        self._settings = settings
        self._sink, self._bundler = sink, bundler or Bundler()
        self._turn = _Turn(engine.now_s)
        self._stable_since_s = engine.now_s

    def step(self, until_s: float) -> list[Outcome]:
        """Wait for an event, until ``until_s`` at the latest, and take a tick if it is due."""
        outcomes = self.engine.advance(min(until_s, self._turn.due_s))
        for outcome in outcomes:
            self._observe(outcome)
        now_s = self.engine.now_s
        if self.snapshot is not None and self.monitor.rate_jumped(self.snapshot.input.set_per_s):
            self.look_now()
        if now_s >= self._turn.due_s:
            self._turn.due_s = max(self._turn.due_s + self._settings.tick_s, now_s)
            if not self._may_rest(now_s):
                self.tick(now_s)
        return outcomes

    def _may_rest(self, now_s: float) -> bool:
        """Return whether a turn can be left out: one worker has little to do, and no request waits."""
        result, seen = self.result, self.snapshot
        if self._turn.asked or result is None or seen is None or result.state is not State.STABLE:
            return False
        light = sum(stage.busy for stage in seen.stages) < LIGHT
        early = now_s < self._stable_since_s + SETTLED_S
        return light and not early and now_s < seen.now_s + REST_S and not self.engine.view().queued

    def look_now(self) -> None:
        """Have the next step begin a turn, for a request that should not wait."""
        self._turn = _Turn(min(self._turn.due_s, self.engine.now_s), asked=True)

    def tick(self, now_s: float) -> None:
        """Take one turn of the manager."""
        self._turn.asked = False
        view = self.engine.view()
        self.snapshot = self._snapshot(now_s, view)
        self.handovers.sample(view, self.snapshot)
        self._bundler.decide(self.snapshot, view, self.manager)
        self.manager.choices.room = self._settings.room()
        self.result = self.manager.tick(now_s, self.snapshot)
        self.journal.record(self.result.decision)
        for decision in self.manager.hindsights():
            self.journal.record_hindsight(decision)
        for command in self.result.commands:
            if isinstance(command, SwitchTo):
                self._switch(command, self.snapshot)
            elif isinstance(command, CallOff):
                self.engine.call_off(command.reason)
            elif isinstance(command, ResetWindow):
                self.monitor.reset_window(now_s)

    def seen(self, at_s: float, out: Delivered) -> None:
        """Record that these items are visible from now on; their latency ends here."""
        if out.error is None:
            self.monitor.record_deliveries(at_s, out.arrived_s, out.started_s, out.since_s)

    # --- observe ----------------------------------------------------------------------------------------------------

    def _observe(self, outcome: Outcome) -> None:
        if self.tap is not None:
            self.tap(outcome)
        if isinstance(outcome, TaskTimed):
            self.monitor.record_timings(outcome.at_s, outcome.timings, outcome.items)
            self.handovers.record_size(outcome)
            self._bundler.timed(outcome)
            if outcome.hop_s is not None:
                self.monitor.record_hop(outcome.hop_s, outcome.node)
        elif isinstance(outcome, Delivered):
            self._delivered(outcome)
        elif isinstance(outcome, Shed):
            self._sink(outcome)
        elif isinstance(outcome, OutOfMemory):
            self._bundler.out_of_memory(outcome)
        elif isinstance(outcome, SwitchEnded):
            self._switched(outcome)
        elif isinstance(outcome, SwitchOverdue):
            self.handovers.drain.overdue()
        elif isinstance(outcome, WorkersChanged):
            if outcome.lost:
                self.failures.count += 1
                self.failures.losses.append(outcome)
                self.manager.workers_lost(outcome.at_s, outcome.reason)
            if outcome.leaving:
                name = self.engine.view().composition.name
                self.journal.record(self.manager.workers_placed(outcome.at_s, name, outcome.reason))
            self.failures.start_failure = None if outcome.joined else self.failures.start_failure
        elif isinstance(outcome, StartFailed):
            self.failures.not_started(outcome)

    def _delivered(self, out: Delivered) -> None:
        self.handovers.gaps.delivered(out.at_s, out.composition)
        self._bundler.delivered(out)
        if self._settings.seen_at_once:
            self.seen(out.at_s, out)
        self._sink(out)

    def _switched(self, ended: SwitchEnded) -> None:
        self.handovers.end(ended)
        if ended.error is not None:
            self.manager.switch_failed(ended.error, called_off=ended.called_off, target=ended.to_name)
            if ended.called_off and not self.manager.gave_way(ended.to_name):  # other work is waiting
                self.look_now()
        else:
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
            self._settings.cores(),
            Counter(worker.node for worker in view.workers),
            view.positions,
            view.full,
            self._gpus(view.composition),
        )
        return self.monitor.snapshot(now_s, running)

    def _gpus(self, composition: Composition) -> GpuUse | None:
        stages = self.manager.choices.stages
        asking = [stage.name for stage in stages if stage.gpus or stage.gpu_memory]
        busy = self._settings.gpus_busy() if asking else None
        if busy is None:
            return None

        def share(loads: Loads) -> float:
            return need_of(held_by(stages, loads)).gpus

        shares = {stage.name: share(loads_of([stage])) for stage in stages}
        reserved = sum(count * share(loads) for loads, count in composition.crew(stages).items())
        return GpuUse(asking, shares, reserved, busy)

    # --- apply ------------------------------------------------------------------------------------------------------

    def _switch(self, command: SwitchTo, snapshot: Snapshot) -> None:
        expected = self.handovers.begin(command.composition, self.engine.view(), snapshot)
        bound_s = expected.drain_bound_s or 0.0
        self.engine.switch(
            command.composition,
            self._settings.style,
            drain_estimate_s=bound_s,
            drain_mean_s=expected.drain_mean_s or 0.0,
            first_result_s=expected.first_result_s,
            wait_s=bound_s if self._settings.drain_sample.waits else 0.0,
        )


@dataclass(frozen=True, slots=True)
class Expected:
    """The estimate of a switch that begins, in seconds; the drain is None if data are missing."""

    drain_mean_s: float | None
    drain_bound_s: float | None
    first_result_s: float
    """Time from the first item into the new composition to its first result."""


class Handovers:
    """Estimates drains and measures output gaps; every switch is recorded in the journal."""

    def __init__(self, journal: Journal, drain_sample: DrainSample) -> None:
        self.drain = DrainEstimator(floored=not drain_sample.waits)
        self.gaps = OutputGaps()
        self._journal = journal
        self._drain_sample = drain_sample
        self._sizes = SizeLaws()
        self._record = SwitchRecord(None, None)

    def record_size(self, task: TaskTimed) -> None:
        """Learn how processing time grows with the size of a payload."""
        stages = tuple(timing.stage for timing in task.timings)
        each_s = sum(timing.wall_s for timing in task.timings) / task.items
        self._sizes.add(stages, task.size_bytes // task.items, each_s)

    def sample(self, view: DispatcherView, snapshot: Snapshot) -> None:
        """Estimate the duration of a drain that would begin now, if there is no estimate."""
        if not view.switching:
            now = self._conditions(snapshot)
            self.drain.sample(self._drain_sample.sample(_left(view), now) if now and view.in_flight else None)

    def begin(self, composition: Composition, view: DispatcherView, snapshot: Snapshot) -> Expected:
        """Record that a switch to ``composition`` begins."""
        now = self._conditions(snapshot)
        sample_s = self._drain_sample.at_switch(_left(view), now) if now and view.in_flight else None
        expected = self.drain.begin(sample_s)
        mean_s, bound_s = (expected.srtt_s, expected.bound_s) if expected else (None, None)
        self._record = SwitchRecord(mean_s, bound_s)
        self.gaps.switch_begins(self._record)
        costs = stage_costs(snapshot.stages, snapshot.cores)
        work_s = snapshot.bundle_items * sum(cost.service_s for cost in costs.values())
        return Expected(mean_s, bound_s, work_s + snapshot.hop_s * len(composition.groups))

    def end(self, ended: SwitchEnded) -> None:
        """Record the end of the switch; after a failure, the estimates continue."""
        self.drain.end(ended.drain_actual_s)
        self._journal.record_switch(self._record, ended)
        self.gaps.switch_ended()
        if ended.error is None:
            self.drain.restart()

    def _conditions(self, snapshot: Snapshot) -> Conditions | None:
        """Return the conditions of a drain; None if data are missing."""
        if not snapshot.stages:
            return None
        costs = stage_costs(snapshot.stages, snapshot.cores)
        return Conditions(costs, snapshot.cores, snapshot.hop_s, self._sizes, self.drain.calibration)


def _left(view: DispatcherView) -> InFlight:
    return InFlight(view.composition, view.in_flight, view.pending)
