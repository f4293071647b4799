"""The dispatcher: events in, instructions and outcomes out. No clock, no I/O, no threads.

The form is that of dask's worker state machine; ordering follows Prasaad et al. (section 3), hand-over Vogel et al.
(section 3.3). It holds every item until its result is back: a lost worker's tasks run again elsewhere (at least once
inside), a result enters the reorder buffer once (exactly once, in order, at the sink).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from compositions.model import Composition, Stage
from runtime.dispatch.checkpoint import Checkpoint
from runtime.dispatch.event_log import DispatcherError, EventLog
from runtime.dispatch.events import Event, Payload, SizeOf, Started
from runtime.dispatch.handlers import Handlers
from runtime.dispatch.instructions import Instruction
from runtime.dispatch.invariants import Invariants
from runtime.dispatch.outcomes import Outcome
from runtime.dispatch.settings import DispatcherSettings
from runtime.dispatch.state import State
from runtime.dispatch.turn import Turn
from runtime.dispatch.views import DispatcherView, view_of


def _unknown(payload: Payload) -> int:
    return 0


class Dispatcher:
    """Owns the work lists, bindings, order, retries, in-flight limits and the switch of one running app.

    What it remembers is in ``State``; ``Handlers`` act on it, and speak through one ``Turn``.
    """

    def __init__(
        self,
        stages: Sequence[Stage],
        composition: Composition,
        settings: DispatcherSettings | None = None,
        size_of: SizeOf | None = None,
        *,
        begin: Checkpoint | None = None,
        validate: bool = False,
    ) -> None:
        """``size_of`` a payload in bytes, which may tell how long a task will take; without it sizes are unknown.
        ``begin``: how far another one had come; None: there was none, and nobody will ask this one for a
        ``checkpoint``. ``validate`` checks after each event that what must hold does; far too slow for work."""
        settings = settings or DispatcherSettings()
        self._set_up(State.initial(stages, composition, settings, begin), settings, size_of or _unknown, validate)

    @classmethod
    def resumed(cls, state: State, settings: DispatcherSettings, size_of: SizeOf, *, validate: bool) -> Dispatcher:
        """One that goes on from ``state``, which becomes its own."""
        made = cls.__new__(cls)
        made._set_up(state, settings, size_of, validate)
        return made

    def _set_up(self, state: State, settings: DispatcherSettings, size_of: SizeOf, validate: bool) -> None:
        self._invariants = Invariants(state) if validate else None
        self.log = EventLog(state, settings, size_of)
        self._turn = Turn()
        self._state = state
        self._crew = state.crew
        handlers = Handlers(state, self._turn, settings, size_of, self.log)
        self._handlers, self._share = handlers.table, handlers.share

    # --- events -----------------------------------------------------------------------------------------------------

    def start(self, now_s: float) -> list[Instruction]:
        """The first instructions: start the workers of the first composition."""
        return self.handle(Started(now_s))[0]

    def handle(self, event: Event) -> tuple[list[Instruction], list[Outcome]]:
        """``handle_all`` of one."""
        return self.handle_all((event,))

    def handle_all(self, events: Iterable[Event]) -> tuple[list[Instruction], list[Outcome]]:
        """Events in, one after the other; effects to carry out and outcomes to report, in order.

        Raises: DispatcherError for a fault of the dispatcher itself; it is of no use afterwards.
        """
        turn = self._turn
        turn.begin()
        for event in events:
            turn.now_s = event.at_s
            try:
                self._handlers[type(event)](event)
                if self._crew.short:
                    self._share()
            except Exception as error:
                raise DispatcherError(f"{type(error).__name__}: {error}", event, self.log) from error
            if self._invariants is not None and (faults := self._invariants.faults()):
                raise DispatcherError("; ".join(faults), event, self.log)
        return turn.instructions, turn.outcomes

    # --- views ------------------------------------------------------------------------------------------------------

    @property
    def has_room(self) -> bool:
        """Whether an ItemAdmitted is welcome now; with overload ``shed`` it always is."""
        return self._state.admission.has_room

    @property
    def waits(self) -> bool:
        """Whether there are items that were not started."""
        return self._state.admission.queued > 0

    @property
    def sheds(self) -> bool:
        """Overload ``shed``."""
        return self._state.admission.sheds

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

    def checkpoint(self, next_serial: int) -> Checkpoint | None:
        """How far it has come, with what has changed of keys since it was asked last. It is somewhat behind
        ``next_serial`` where a part of a bundle is out that a stage saw together with the rest. None: other items have
        left than all before ``next_serial``, or nothing behind the checkpoint before can be told yet."""
        if self._state.outbox.next_serial == next_serial:
            for out in self._state.outbox.checkpoint_candidates:
                if (found := self._state.stateful.as_of(out.next_turn)) is not None:
                    return Checkpoint(*out, *found)
        return None

    def view(self, now_s: float) -> DispatcherView:
        """The state at ``now_s``, which is not before the last event."""
        return view_of(self._state, now_s)
