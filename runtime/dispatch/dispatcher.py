"""The dispatcher: events in, instructions and outcomes out; a table maps each event type to its handler.

The form is that of dask's worker state machine; ordering follows Prasaad et al. (section 3), hand-over Vogel et al.
(section 3.3). The dispatcher holds every item until its result is back. A lost worker's tasks run again elsewhere (at
least once inside), and a result enters the reorder buffer once (exactly once, in order, at the sink).
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from compositions.model import Composition, Stage
from runtime.dispatch import events
from runtime.dispatch.checkpoint import Checkpoint
from runtime.dispatch.event_log import DispatcherError, EventLog
from runtime.dispatch.events import Event, SizeOf
from runtime.dispatch.instructions import Instruction
from runtime.dispatch.keys import Payload
from runtime.dispatch.outcomes import Outcome, Turn
from runtime.dispatch.results import Failures, Results
from runtime.dispatch.settings import DispatcherSettings
from runtime.dispatch.staffing import Staffing
from runtime.dispatch.state import State
from runtime.dispatch.transition import Transition
from runtime.dispatch.views import DispatcherView, view_of
from runtime.dispatch.work import Work


class Handlers:
    """The event handlers: ``Work`` (tasks to workers), ``Results`` (finished and failed tasks), ``Failures`` (lost and
    hung workers), ``Staffing`` (the number and places of workers), ``Transition`` (switches and resizes)."""

    def __init__(self, state: State, turn: Turn, settings: DispatcherSettings, size_of: SizeOf, log: EventLog) -> None:
        self._size_of = size_of
        self._log = log
        self._admission = state.admission
        self._crew = state.crew
        self._work = work = Work(state, turn, settings)
        self._staffing = staffing = Staffing(state, turn, settings, work)
        self._transition = transition = Transition(state, turn, settings, work, staffing)
        self._failures = failures = Failures(state, turn, settings, work, staffing, transition)
        self._results = results = Results(state, turn, settings, work, staffing)
        self.table: Mapping[type, Callable[[Any], None]] = {
            events.Started: self._noted(lambda _: staffing.start_missing()),
            events.BundleAdmitted: self._admit,
            events.TaskDone: self._task_done,
            events.TaskFailed: self._noted(results.failed),
            events.WorkerJoined: self._noted(self._worker_joined),
            events.WorkerAnswered: self._noted(failures.answered),
            events.WorkerLeaving: self._noted(staffing.leaving),
            events.WorkerLost: self._noted(failures.lost),
            events.WorkerStartFailed: self._noted(failures.start_failed),
            events.SwitchRequested: self._noted(transition.request),
            events.SwitchCalledOff: self._noted(transition.call_off),
            events.Tick: self._noted(self._tick),
        }

    def settle(self) -> None:
        """Send scarce workers to groups where items wait, and let a drain end or free workers."""
        while True:
            if self._crew.short:
                self._staffing.share()
            if not self._transition.advance():
                return

    def _noted(self, handle: Callable[[Any], None]) -> Callable[[Any], None]:
        """Return a handler that logs an event and then handles it, so that a failing event is in the log."""

        def note_and_handle(event: Event) -> None:
            self._log.note(event)
            handle(event)

        return note_and_handle

    def _admit(self, event: events.BundleAdmitted) -> None:
        size_bytes = 0
        if event.error is None:
            size_bytes = self._size_of(event.payload)
            self._log.note_admitted(event, size_bytes)
        else:
            self._log.note(event)
        if too_many := self._admission.take(event, size_bytes):
            self._work.shed(too_many)
        self._work.feed()

    def _task_done(self, event: events.TaskDone) -> None:
        busy_s, size_bytes = 0.0, self._size_of(event.payload)
        for timing in event.timings:
            busy_s += timing.wall_s
        self._log.note_done(event, busy_s, size_bytes)
        self._results.done(event, busy_s, size_bytes)

    def _worker_joined(self, event: events.WorkerJoined) -> None:
        self._staffing.joined(event)
        self._transition.worker_joined()
        self._staffing.assign()

    def _tick(self, event: events.Tick) -> None:
        self._failures.kill_hung()
        self._transition.tick()
        self._staffing.free_left()
        self._staffing.stop_surplus()
        self._staffing.start_missing()
        self._work.dispatch_apart()
        self._work.dispatch_keyed()
        self._work.feed()


def _unknown(payload: Payload) -> int:
    return 0


class Dispatcher:
    """Owns the queues, bindings, order, retries, in-flight limits and the switch of one running app.

    Its memory is the ``State``. ``Handlers`` change the state and write instructions and outcomes to one ``Turn``.
    """

    def __init__(
        self,
        stages: Sequence[Stage],
        composition: Composition,
        settings: DispatcherSettings | None = None,
        size_of: SizeOf | None = None,
        *,
        begin: Checkpoint | None = None,
    ) -> None:
        """Create the dispatcher of an app. ``size_of``: returns a payload's size in bytes, which helps to predict task
        times; None: sizes are unknown. ``begin``: the checkpoint to continue from; None: begin with the first item, and
        ``checkpoint`` is never called."""
        settings = settings or DispatcherSettings()
        self._set_up(State.initial(stages, composition, settings, begin), settings, size_of or _unknown)

    def _set_up(self, state: State, settings: DispatcherSettings, size_of: SizeOf) -> None:
        self.log = EventLog(state, settings, size_of)
        self._turn = Turn()
        self._state = state
        self._crew = state.crew
        self._course = state.course
        handlers = Handlers(state, self._turn, settings, size_of, self.log)
        self._handlers, self._settle = handlers.table, handlers.settle

    # --- events -----------------------------------------------------------------------------------------------------

    def start(self, now_s: float) -> list[Instruction]:
        """Return the first instructions: start the workers of the first composition."""
        return self.handle(events.Started(now_s))[0]

    def handle(self, event: Event) -> tuple[list[Instruction], list[Outcome]]:
        """Handle one event, as ``handle_all`` does."""
        return self.handle_all((event,))

    def handle_all(self, events: Iterable[Event]) -> tuple[list[Instruction], list[Outcome]]:
        """Handle events one after the other; return the instructions to carry out and the outcomes to report, in order.

        Raises: DispatcherError for a fault of the dispatcher itself, which must not be used afterwards.
        """
        turn = self._turn
        turn.begin()
        for event in events:
            turn.now_s = event.at_s
            try:
                self._handlers[type(event)](event)
                if self._crew.short or self._course.phase is not None:
                    self._settle()
            except Exception as error:
                raise DispatcherError(f"{type(error).__name__}: {error}", event, self.log) from error
        return turn.instructions, turn.outcomes

    # --- views ------------------------------------------------------------------------------------------------------

    @property
    def has_room(self) -> bool:
        """True if the queue has room for another bundle; always with overload policy ``shed``."""
        return self._state.admission.has_room

    @property
    def waits(self) -> bool:
        """True if admitted items wait to be started."""
        return self._state.admission.queued > 0

    @property
    def sheds(self) -> bool:
        """True if the overload policy is ``shed``."""
        return self._state.admission.sheds

    @property
    def wake_at_s(self) -> float:
        """The time at which the switch under way needs a tick; infinite without a switch."""
        phase = self._state.course.phase
        return phase.next_deadline_s(self._turn.now_s) if phase else math.inf

    @property
    def accepted(self) -> int:
        """Number of items admitted so far, which is also the next serial number."""
        return self._state.admission.accepted

    @property
    def idle(self) -> bool:
        """True if every accepted item has left."""
        return self._state.outbox.next_serial == self._state.admission.accepted

    def checkpoint(self, next_serial: int) -> Checkpoint | None:
        """Return a checkpoint, with the states of the keys that have changed since the previous one. It ends before
        ``next_serial`` if only a part of the latest bundle has left: a stage may have seen the bundle as a whole. None:
        ``next_serial`` is not the next to leave, or no states later than the previous checkpoint are known yet."""
        if self._state.outbox.next_serial == next_serial:
            for out in self._state.outbox.checkpoint_candidates:
                if (found := self._state.stateful.as_of(out.next_turn)) is not None:
                    return Checkpoint(*out, *found)
        return None

    def view(self, now_s: float) -> DispatcherView:
        """Return a view of the state at ``now_s``, which is not before the last event."""
        return view_of(self._state, now_s)
