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
from runtime.dispatch.events import (
    DispatcherView,
    Event,
    Instruction,
    ItemAdmitted,
    Outcome,
    SwitchRequested,
    TaskDone,
    TaskFailed,
    Tick,
    WorkerJoined,
    WorkerLost,
    WorkerStartFailed,
)
from runtime.dispatch.failures import Failures
from runtime.dispatch.results import Results, SizeOf
from runtime.dispatch.settings import DispatcherSettings
from runtime.dispatch.staffing import Staffing
from runtime.dispatch.state import State
from runtime.dispatch.transition import Transition
from runtime.dispatch.turn import Turn
from runtime.dispatch.work import Work


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
    ) -> None:
        """``size_of`` a payload in bytes, which may tell how long a task will take; without it sizes are unknown."""
        settings = settings or DispatcherSettings()
        self._size_of = size_of or (lambda payload: 0)
        self._turn = turn = Turn()
        self._state = state = State.initial(stages, composition, settings)
        self._work = work = Work(state, turn, settings)
        self._staffing = staffing = Staffing(state, turn, settings, work)
        self._transition = transition = Transition(state, turn, settings, work, staffing)
        self._failures = failures = Failures(state, turn, settings, work, staffing, transition)
        results = Results(state, turn, settings.attempts, work, transition, self._size_of)
        self._handlers: Mapping[type, Callable[[Any], None]] = {
            ItemAdmitted: self._admit,
            TaskDone: results.done,
            TaskFailed: results.failed,
            WorkerJoined: self._worker_joined,
            WorkerLost: failures.lost,
            WorkerStartFailed: failures.start_failed,
            SwitchRequested: transition.request,
            Tick: self._tick,
        }

    # --- events -----------------------------------------------------------------------------------------------------

    def start(self, now_s: float) -> list[Instruction]:
        """The first instructions: start the workers of the first composition."""
        self._turn.begin(now_s)
        self._staffing.start_missing()
        return self._turn.instructions

    def handle(self, event: Event) -> tuple[list[Instruction], list[Outcome]]:
        """One event in; effects to carry out and outcomes to report, in order."""
        turn = self._turn
        turn.begin(event.at_s)
        self._handlers[type(event)](event)
        return turn.instructions, turn.outcomes

    def _admit(self, event: ItemAdmitted) -> None:
        too_many = self._state.admission.take(event, self._size_of(event.payload))
        if too_many is not None:
            self._work.shed(too_many)
        self._work.feed()

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
        )
