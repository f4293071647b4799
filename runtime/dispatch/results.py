"""Results: what a worker brings back is booked, its item goes on or runs again, and the worker gets more."""

from __future__ import annotations

from collections.abc import Callable

from runtime.dispatch.events import Payload, TaskDone, TaskFailed, TaskTimed
from runtime.dispatch.pipeline import GroupState, WorkerState
from runtime.dispatch.state import State
from runtime.dispatch.transition import Transition
from runtime.dispatch.turn import Turn
from runtime.dispatch.work import Work


class Results:
    """Hears what workers say of their tasks. A late word of one given up is ignored: its task runs elsewhere."""

    def __init__(
        self, state: State, turn: Turn, attempts: int, work: Work, transition: Transition, size_of: SizeOf
    ) -> None:
        self._crew = state.crew
        self._stateful = state.stateful
        self._turn = turn
        self._attempts = attempts
        self._work = work
        self._transition = transition
        self._size_of = size_of

    def done(self, event: TaskDone) -> None:
        back = self._crew.take_back(event.worker, event.task_id, event.at_s)
        if back is None:
            return
        worker, task, since_s = back
        item, group = task.item, task.group
        busy_s = 0.0
        for timing in event.timings:
            busy_s += timing.wall_s
        group.note_busy(busy_s)
        hop_s = None if task.prefetched else max(0.0, event.at_s - since_s - busy_s)
        name = group.pipeline.composition.name
        self._turn.outcomes.append(TaskTimed(event.at_s, name, event.timings, hop_s, item.size_bytes, item.serial))
        self._stateful.commit(event.states)
        item.advance(group.last + 1, event.payload, self._size_of(event.payload))
        self._work.pass_gates(group.ordered, item.serial)
        self._work.route(item)
        self._refill(worker, group)

    def failed(self, event: TaskFailed) -> None:
        """A stage raised: the task runs again, here or elsewhere, until its attempts are used up."""
        back = self._crew.take_back(event.worker, event.task_id, event.at_s)
        if back is None:
            return
        worker, task, _ = back
        self._transition.disturb(task)
        task.item.attempts += 1
        self._work.retry(task.item, event.error, hopeless=task.item.attempts >= self._attempts)
        self._refill(worker, task.group)

    def _refill(self, worker: WorkerState, group: GroupState) -> None:
        """More work for the worker, and for whoever waited for room."""
        if worker.group is not None:
            self._work.dispatch(worker.group)
        self._transition.advance()
        if group.index or worker.group is not group:
            self._work.feed()


SizeOf = Callable[[Payload], int]
"""The size of a payload in bytes; 0 where it is not known."""
