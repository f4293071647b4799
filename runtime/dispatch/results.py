"""Results: what a worker brings back is booked, its item goes on or runs again, and the worker gets more."""

from __future__ import annotations

from runtime.dispatch.events import TaskDone, TaskFailed
from runtime.dispatch.outcomes import TaskTimed
from runtime.dispatch.pipeline import GroupState, WorkerState
from runtime.dispatch.settings import DispatcherSettings
from runtime.dispatch.state import State
from runtime.dispatch.transition import Transition
from runtime.dispatch.turn import Turn
from runtime.dispatch.work import Work


class Results:
    """Hears what workers say of their tasks. A late word of one given up is ignored: its task runs elsewhere."""

    def __init__(
        self, state: State, turn: Turn, settings: DispatcherSettings, work: Work, transition: Transition
    ) -> None:
        self._crew = state.crew
        self._tasks = state.tasks
        self._course = state.course
        self._stateful = state.stateful
        self._turn = turn
        self._attempts = settings.attempts
        self._work = work
        self._transition = transition

    def done(self, event: TaskDone, busy_s: float, size_bytes: int) -> None:
        """A task ran to its end: ``busy_s`` in its stages, and returned a payload of ``size_bytes``."""
        worker = self._crew.workers.get(event.worker)
        back = self._tasks.take_back(worker, event.task_id, event.at_s)
        if worker is None or back is None:
            return
        task, since_s = back
        item, group = task.item, task.group
        group.note_busy(busy_s)
        hop_s = None if task.prefetched else max(0.0, event.at_s - since_s - busy_s)
        name = group.pipeline.composition.name
        self._turn.outcomes.append(TaskTimed(event.at_s, name, event.timings, hop_s, item.size_bytes, item.serial))
        item.advance(group.last + 1, event.payload, size_bytes)
        if group.ordered:
            self._stateful.commit(event.states)
            self._work.pass_gates(group.ordered, item.turn)
        self._work.route(item)
        self._refill(worker, group)

    def failed(self, event: TaskFailed) -> None:
        """A stage raised: the task runs again, here or elsewhere, until its attempts are used up."""
        worker = self._crew.workers.get(event.worker)
        back = self._tasks.take_back(worker, event.task_id, event.at_s)
        if worker is None or back is None:
            return
        task, _ = back
        self._transition.disturb(task)
        task.item.attempts += 1
        self._work.retry(task.item, event.error, hopeless=task.item.attempts >= self._attempts)
        self._refill(worker, task.group)

    def _refill(self, worker: WorkerState, group: GroupState) -> None:
        """More work for the worker, and for whoever waited for room."""
        if worker.group is not None and not self._crew.short:  # where workers are short, each is placed anew
            self._work.dispatch(worker.group)
        if self._course.phase is not None:
            self._transition.advance()
        if group.index or worker.group is not group:
            self._work.feed()
