"""Move from one composition to another. A switch prepares, hands over at an item boundary and drains (Vogel et al.,
section 3.3), unless it ends early. A resize changes the numbers of replicas in place."""

from collections.abc import Sequence
from dataclasses import replace

from compositions.model import Group, TransitionKind
from compositions.wording import figure
from runtime.dispatch.events import SwitchCalledOff, SwitchRequested
from runtime.dispatch.outcomes import SwitchEnded, SwitchOverdue, Turn
from runtime.dispatch.phases import Awaiting, Draining, Preparing, Resizing
from runtime.dispatch.settings import DispatcherSettings
from runtime.dispatch.staffing import Staffing
from runtime.dispatch.state import State
from runtime.dispatch.work import Work


class Transition:
    """Advances a switch (no phase → preparing → draining → no phase) or a resize (no phase → resizing → no phase). Both
    can fail or be cancelled only while they wait for workers."""

    def __init__(self, state: State, turn: Turn, settings: DispatcherSettings, work: Work, staffing: Staffing) -> None:
        self._course = state.course
        self._crew = state.crew
        self._turn = turn
        self._settings = settings
        self._work = work
        self._staffing = staffing

    def request(self, event: SwitchRequested) -> None:
        """Begin a switch or a resize, or refuse it: during a drain, and if the composition has other stages. A
        transition that still waits for workers is cancelled for the new one."""
        course, names = self._course, tuple(stage.name for stage in self._course.stages)
        asked = self._asked(event)
        if event.composition.stages != names:
            self._refuse(asked, f"{event.composition.name} does not run {names}")
        elif isinstance(course.phase, Draining):
            self._refuse(asked, f"a switch to {course.phase.request.composition.name} is under way")
        else:
            if course.phase is not None:
                if not isinstance(asked, Resizing):  # a resize starts from the numbers of the cancelled one
                    self._restore(course.phase)
                self._give_way(course.phase, f"a {asked.kind} to {event.composition.name} was requested")
            course.phase = asked
            self._staffing.start_missing()
            if isinstance(asked, Resizing):
                self._resize(event.composition.groups)
            self._go_on(asked)

    def call_off(self, event: SwitchCalledOff) -> None:
        """Cancel a transition that waits for workers; workers that are still starting become spares."""
        if isinstance(self._course.phase, Awaiting):
            self._restore(self._course.phase)
            self._give_way(self._course.phase, event.reason)

    def _give_way(self, phase: Awaiting, reason: str) -> None:
        told = phase.ended(self._turn.now_s, f"cancelled before any worker changed: {reason}")
        self._close(replace(told, called_off=True))

    def _asked(self, event: SwitchRequested) -> Preparing | Resizing:
        active, limit_at_s = self._course.active.composition, event.at_s + self._settings.prepare_limit_s
        if event.style.transition(active, event.composition) is TransitionKind.RESIZE:
            return Resizing(event, active.name, limit_at_s)
        return Preparing(event, active.name, limit_at_s)

    def _refuse(self, asked: Awaiting, error: str) -> None:
        self._turn.outcomes.append(asked.ended(self._turn.now_s, error))

    # --- waiting for workers ----------------------------------------------------------------------------------------

    def worker_joined(self) -> None:
        if isinstance(self._course.phase, Awaiting):
            self._go_on(self._course.phase)

    def start_failed(self, reason: str) -> None:
        if isinstance(self._course.phase, Awaiting):
            self._fail(self._course.phase, f"a worker could not be started: {reason}")

    def _go_on(self, phase: Awaiting) -> None:
        """Finish a resize, or hand over to the new composition, if all its workers have joined."""
        if phase.request.composition.crew(self._course.stages) - self._crew.staying():
            return
        if isinstance(phase, Resizing):
            self._course.active.composition = phase.request.composition
            self._end(phase, None)
        elif isinstance(phase, Preparing):
            self._hand_over(phase)

    def _fail(self, phase: Awaiting, error: str) -> None:
        """End a failed transition: the old composition keeps running, with its own numbers of replicas."""
        self._restore(phase)
        self._end(phase, error)

    def _restore(self, phase: Awaiting) -> None:
        if isinstance(phase, Resizing):
            self._resize(self._course.active.composition.groups)

    def _resize(self, groups: Sequence[Group]) -> None:
        """Give the active groups the replica numbers of ``groups``: release surplus workers and bind free ones."""
        self._course.active.resize(groups)
        self._staffing.free_left()
        self._staffing.assign()

    def _hand_over(self, phase: Preparing) -> None:
        self._course.hand_over(phase, self._turn.now_s, self._settings.drain_limit_s)
        self._staffing.assign()

    # --- draining ---------------------------------------------------------------------------------------------------

    def advance(self) -> bool:
        """End a drain that is empty and due, or pass on workers that it can spare. Return whether anything changed."""
        phase = self._course.phase
        if not isinstance(phase, Draining):
            return False
        if phase.pipeline.in_flight == 0 and phase.emptied_s is None:
            phase.emptied_s = self._turn.now_s
        if phase.emptied_s is not None and self._turn.now_s >= phase.held_until_s:
            self._crew.release(phase.pipeline)
            self._end(phase, None)
            return True
        if not self._crew.release_dry(phase.pipeline):
            return False
        self._staffing.assign()
        return True

    def _give_up_drain(self, phase: Draining) -> None:
        """Give up a drain that passed its limit: waiting bundles move now, running ones when their tasks return."""
        phase.pass_limit(self._turn.now_s)
        for group in phase.pipeline.groups:
            for bundle in group.empty():
                self._work.route(bundle, phase.pipeline)
        self._staffing.assign()

    # --- both -------------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Check the time limits of the phase."""
        phase, now_s = self._course.phase, self._turn.now_s
        if isinstance(phase, Awaiting) and now_s >= phase.limit_at_s:
            self._fail(phase, f"its workers were not ready after {figure(self._settings.prepare_limit_s, 6)} s")
        elif isinstance(phase, Draining) and now_s >= phase.limit_at_s:
            self._give_up_drain(phase)
        elif isinstance(phase, Draining) and now_s >= phase.overdue_at_s and phase.emptied_s is None:
            in_flight = phase.pipeline.in_flight
            self._turn.outcomes.append(SwitchOverdue(now_s, phase.from_name, phase.estimate_s, in_flight))
            phase.back_off()

    def _end(self, phase: Awaiting | Draining, error: str | None) -> None:
        self._close(phase.ended(self._turn.now_s, error))

    def _close(self, ended: SwitchEnded) -> None:
        self._turn.outcomes.append(ended)
        self._course.phase = None
        self._staffing.assign()
        self._work.feed()
