"""What is done about each kind of event: the dispatcher's parts, and the table that says which one is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from runtime.dispatch.event_log import EventLog
from runtime.dispatch.events import (
    BundleAdmitted,
    Event,
    SizeOf,
    Started,
    SwitchCalledOff,
    SwitchRequested,
    TaskDone,
    TaskFailed,
    Tick,
    WorkerAnswered,
    WorkerJoined,
    WorkerLost,
    WorkerStartFailed,
)
from runtime.dispatch.failures import Failures
from runtime.dispatch.results import Results
from runtime.dispatch.settings import DispatcherSettings
from runtime.dispatch.staffing import Staffing
from runtime.dispatch.state import State
from runtime.dispatch.transition import Transition
from runtime.dispatch.turn import Turn
from runtime.dispatch.work import Work


class Handlers:
    """The parts, each with a question of its own: ``Work`` (who runs what next), ``Results`` (what came back),
    ``Failures`` (what did not), ``Staffing`` (how many workers, and where), ``Transition`` (the switch)."""

    def __init__(self, state: State, turn: Turn, settings: DispatcherSettings, size_of: SizeOf, log: EventLog) -> None:
        self._size_of = size_of
        self._log = log
        self._admission = state.admission
        self._work = work = Work(state, turn, settings)
        self._staffing = staffing = Staffing(state, turn, settings, work)
        self._transition = transition = Transition(state, turn, settings, work, staffing)
        self._failures = failures = Failures(state, turn, settings, work, staffing, transition)
        self._results = results = Results(state, turn, settings, work, transition)
        self.table: Mapping[type, Callable[[Any], None]] = {
            Started: self._noted(self._started),
            BundleAdmitted: self._admit,
            TaskDone: self._task_done,
            TaskFailed: self._noted(results.failed),
            WorkerJoined: self._noted(self._worker_joined),
            WorkerAnswered: self._noted(failures.answered),
            WorkerLost: self._noted(failures.lost),
            WorkerStartFailed: self._noted(failures.start_failed),
            SwitchRequested: self._noted(transition.request),
            SwitchCalledOff: self._noted(transition.call_off),
            Tick: self._noted(self._tick),
        }
        self.share = staffing.share
        """Where workers are short: after every event."""

    def _noted(self, handle: Callable[[Any], None]) -> Callable[[Any], None]:
        """Every event is noted before it is handled, so that the one that fails is in the log."""

        def note_and_handle(event: Event) -> None:
            self._log.note(event)
            handle(event)

        return note_and_handle

    def _admit(self, event: BundleAdmitted) -> None:
        size_bytes = self._size_of(event.payload)
        self._log.note_admitted(event, size_bytes)
        if too_many := self._admission.take(event, size_bytes):
            self._work.shed(too_many)
        self._work.feed()

    def _task_done(self, event: TaskDone) -> None:
        busy_s, size_bytes = 0.0, self._size_of(event.payload)
        for timing in event.timings:
            busy_s += timing.wall_s
        self._log.note_done(event, busy_s, size_bytes)
        self._results.done(event, busy_s, size_bytes)

    def _started(self, event: Started) -> None:
        self._staffing.start_missing()

    def _worker_joined(self, event: WorkerJoined) -> None:
        self._staffing.joined(event)
        self._transition.worker_joined()
        self._staffing.assign()

    def _tick(self, event: Tick) -> None:
        self._failures.kill_hung()
        self._transition.tick()
        self._staffing.free_left()
        self._staffing.stop_surplus()
        self._staffing.start_missing()
        self._work.dispatch_keyed()
        self._work.feed()
