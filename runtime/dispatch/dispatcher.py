"""The dispatcher: events in, instructions and outcomes out. No clock, no I/O, no threads.

The form is that of dask's worker state machine; ordering follows Prasaad et al. (section 3), hand-over Vogel et al.
(section 3.3). It holds every item until its result is back: a lost worker's tasks run again elsewhere (at least once
inside), a result enters the reorder buffer once (exactly once, in order, at the sink).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from compositions.model import Composition, Stage
from runtime.dispatch.event_log import DispatcherError, EventLog
from runtime.dispatch.events import (
    DispatcherView,
    Event,
    Instruction,
    ItemAdmitted,
    Outcome,
    Payload,
    SizeOf,
    Started,
    SwitchRequested,
    TaskDone,
    TaskFailed,
    Tick,
    WorkerJoined,
    WorkerLost,
    WorkerStartFailed,
)
from runtime.dispatch.failures import Failures
from runtime.dispatch.invariants import Invariants
from runtime.dispatch.results import Results
from runtime.dispatch.settings import DispatcherSettings
from runtime.dispatch.staffing import Staffing
from runtime.dispatch.state import State
from runtime.dispatch.transition import Transition
from runtime.dispatch.turn import Turn
from runtime.dispatch.work import Work


def _unknown(payload: Payload) -> int:
    return 0


class Dispatcher:
    """Owns the work lists, bindings, order, retries, in-flight limits and the switch of one running app.

    What it remembers is in ``State``; its parts act on it, each with a question of its own, and speak through one
    ``Turn``: ``Work`` (who runs what next), ``Results`` (what came back), ``Failures`` (what did not), ``Staffing``
    (how many workers, and where), ``Transition`` (the switch).
    """

    def __init__(
        self,
        stages: Sequence[Stage],
        composition: Composition,
        settings: DispatcherSettings | None = None,
        size_of: SizeOf | None = None,
        *,
        validate: bool = False,
    ) -> None:
        """``size_of`` a payload in bytes, which may tell how long a task will take; without it sizes are unknown.
        ``validate`` checks after each event that what must hold does; far too slow for work."""
        settings = settings or DispatcherSettings()
        self._set_up(State.initial(stages, composition, settings), settings, size_of or _unknown, validate)

    @classmethod
    def resumed(cls, state: State, settings: DispatcherSettings, size_of: SizeOf, *, validate: bool) -> Dispatcher:
        """One that goes on from ``state``, which becomes its own."""
        made = cls.__new__(cls)
        made._set_up(state, settings, size_of, validate)
        return made

    def _set_up(self, state: State, settings: DispatcherSettings, size_of: SizeOf, validate: bool) -> None:
        self._size_of = size_of
        self._invariants = Invariants(state) if validate else None
        self.log = EventLog(state, settings, size_of)
        self._turn = turn = Turn()
        self._state = state
        self._crew = state.crew
        self._work = work = Work(state, turn, settings)
        self._staffing = staffing = Staffing(state, turn, settings, work)
        self._transition = transition = Transition(state, turn, settings, work, staffing)
        self._failures = failures = Failures(state, turn, settings, work, staffing, transition)
        self._results = results = Results(state, turn, settings, work, transition)
        self._handlers: Mapping[type, Callable[[Any], None]] = {
            Started: self._noted(self._started),
            ItemAdmitted: self._admit,
            TaskDone: self._task_done,
            TaskFailed: self._noted(results.failed),
            WorkerJoined: self._noted(self._worker_joined),
            WorkerLost: self._noted(failures.lost),
            WorkerStartFailed: self._noted(failures.start_failed),
            SwitchRequested: self._noted(transition.request),
            Tick: self._noted(self._tick),
        }

    # --- events -----------------------------------------------------------------------------------------------------

    def start(self, now_s: float) -> list[Instruction]:
        """The first instructions: start the workers of the first composition."""
        return self.handle(Started(now_s))[0]

    def handle(self, event: Event) -> tuple[list[Instruction], list[Outcome]]:
        """One event in; effects to carry out and outcomes to report, in order.

        Raises: DispatcherError for a fault of the dispatcher itself; it is of no use afterwards.
        """
        turn = self._turn
        turn.begin(event.at_s)
        try:
            self._handlers[type(event)](event)
            if self._crew.short:
                self._staffing.share()
        except Exception as error:
            raise DispatcherError(f"{type(error).__name__}: {error}", event, self.log) from error
        if self._invariants is not None and (faults := self._invariants.faults()):
            raise DispatcherError("; ".join(faults), event, self.log)
        return turn.instructions, turn.outcomes

    def _noted(self, handle: Callable[[Any], None]) -> Callable[[Any], None]:
        """Every event is noted before it is handled, so that the one that fails is in the log."""

        def note_and_handle(event: Event) -> None:
            self.log.note(event)
            handle(event)

        return note_and_handle

    def _admit(self, event: ItemAdmitted) -> None:
        size_bytes = self._size_of(event.payload)
        self.log.note_admitted(event, size_bytes)
        too_many = self._state.admission.take(event, size_bytes)
        if too_many is not None:
            self._work.shed(too_many)
        self._work.feed()

    def _task_done(self, event: TaskDone) -> None:
        busy_s, size_bytes = 0.0, self._size_of(event.payload)
        for timing in event.timings:
            busy_s += timing.wall_s
        self.log.note_done(event, busy_s, size_bytes)
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
        self._staffing.stop_surplus()
        self._staffing.start_missing()
        self._work.feed()

    # --- views ------------------------------------------------------------------------------------------------------

    @property
    def has_room(self) -> bool:
        """Whether an ItemAdmitted is welcome now; with overload ``shed`` it always is."""
        return self._state.admission.has_room

    @property
    def wake_at_s(self) -> float:
        """When a Tick is due for the switch under way; infinite without one."""
        phase = self._state.course.phase
        return phase.next_deadline_s(self._turn.now_s) if phase else math.inf

    @property
    def accepted(self) -> int:
        """Items admitted so far, and so the next serial number."""
        return self._state.admission.accepted

    @property
    def idle(self) -> bool:
        """Every accepted item is out."""
        return self._state.outbox.next_serial == self._state.admission.accepted

    def view(self, now_s: float) -> DispatcherView:
        """The state at ``now_s``, which is not before the last event."""
        state, course = self._state, self._state.course
        active, outbox = course.active, state.outbox
        return DispatcherView(
            composition=active.composition,
            switching=course.phase is not None,
            queued=len(state.admission.queue),
            in_flight=sum(pipeline.in_flight for pipeline in course.pipelines),
            positions=active.positions(course.stages),
            pending=active.pending(course.stages, now_s),
            accepted=state.admission.accepted,
            delivered=outbox.delivered,
            failed=outbox.failed,
            shed=outbox.shed,
            restarts=state.crew.restarts,
            workers=state.crew.views(active),
            short_of_workers=state.crew.short,
        )
