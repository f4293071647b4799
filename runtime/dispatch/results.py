"""Results: what a worker brings back is booked, its items go on or run again, and the worker gets more."""

from __future__ import annotations

from dataclasses import replace

from runtime.dispatch.bundle import Bundle
from runtime.dispatch.events import TaskDone, TaskFailed
from runtime.dispatch.outcomes import TaskTimed
from runtime.dispatch.pieces import Pieces
from runtime.dispatch.pipeline import GroupState, Pipeline, TaskInWork, WorkerState
from runtime.dispatch.settings import DispatcherSettings
from runtime.dispatch.spans import between
from runtime.dispatch.state import State
from runtime.dispatch.transition import Transition
from runtime.dispatch.turn import Turn
from runtime.dispatch.work import Work
from runtime.made import made


class Results:
    """Hears what workers say of their tasks. A late word of one given up is ignored: its task runs elsewhere."""

    def __init__(
        self, state: State, turn: Turn, settings: DispatcherSettings, work: Work, transition: Transition
    ) -> None:
        self._crew = state.crew
        self._tasks = state.tasks
        self._course = state.course
        self._stateful = state.stateful
        self._started = state.outbox.started
        self._turn = turn
        self._attempts = settings.attempts
        self._work = work
        self._pieces = Pieces(state, settings, work)
        self._transition = transition

    def done(self, event: TaskDone, busy_s: float, size_bytes: int) -> None:
        """A task ran to its end: ``busy_s`` in its stages, and returned a payload of ``size_bytes``."""
        at_s, name, task_id, payload, timings, _, faults, keyed = event
        worker = self._crew.workers.get(name)
        back = self._tasks.take_back(worker, task_id, at_s)
        if worker is None or back is None:
            return
        task, since_s = back
        assert not task.void, f"task {task_id} was done on states that a failed one had changed"
        bundle, group, pipeline = task.bundle, task.group, task.group.pipeline
        count, in_bytes = len(bundle.arrived_s), bundle.size_bytes
        if task.picked is not None:
            count, in_bytes = task.count, in_bytes * task.count // count
        group.pace.note(busy_s, count)
        group.settle_depth()
        if pipeline.roaming is not None:
            pipeline.roaming.note(group.index, since_s, at_s, count, busy_s)
        overlapped = task.with_others or (group.at_once > 1 and count > 1)
        hop_s = None if overlapped else max(0.0, at_s - since_s - busy_s)
        timed = at_s, pipeline.composition.name, timings, hop_s, in_bytes, bundle.serial, count, worker.node
        self._turn.outcomes.append(made(TaskTimed, timed))
        if group.ordered:
            self._stateful.commit(event, task)
        if task.picked is not None:
            self._pieces.done(task, event, size_bytes)
            self._refill(worker, group)
            return
        if group.ordered:
            self._work.pass_gates(group.ordered, bundle)
        if faults:
            self._go_apart(task, event, size_bytes)
        else:
            if size_bytes != bundle.size_bytes:
                self._started.resize(bundle, size_bytes)
            bundle.advance(group.last + 1, payload, 0, keyed.routes)
            self._work.route(bundle, pipeline)
        self._refill(worker, group)

    def _go_apart(self, task: TaskInWork, event: TaskDone, size_bytes: int) -> None:
        """Items that a stage raised on run again, each alone; those between them go on."""
        self._transition.disturb(task)
        bundle, pipeline, end = task.bundle, task.group.pipeline, task.group.last + 1
        faults = {fault.position: fault for fault in event.faults}
        pieces = list(between(bundle.count, sorted(faults)))
        self._work.part(pipeline, pieces)
        for begin, stop in pieces:
            piece = bundle.part(begin, stop)
            if begin in faults:
                self._again(piece, pipeline, faults[begin].error)
            else:
                self._started.resize(piece, size_bytes * (stop - begin) // bundle.count)
                routes = event.keyed.routes
                piece.advance(end, event.payload, begin, routes and routes.part(begin, stop))
                self._work.route(piece, pipeline)

    def failed(self, event: TaskFailed) -> None:
        """A stage raised: the task runs again, here or elsewhere, until its attempts are used up."""
        worker = self._crew.workers.get(event.worker)
        back = self._tasks.take_back(worker, event.task_id, event.at_s)
        if worker is None or back is None:
            return
        task, _ = back
        self._transition.disturb(task)
        if task.void:
            self._pieces.refused(task)
        elif task.picked is not None:
            for behind in worker.outstanding:
                behind.void = behind.picked is not None
            self._pieces.failed(task, event)
        elif task.bundle.count == 1:
            self._again(task.bundle, task.group.pipeline, event.error)
        else:
            self._find(task.bundle, task.group.pipeline, event)
        self._refill(worker, task.group)

    def _find(self, bundle: Bundle, pipeline: Pipeline, event: TaskFailed) -> None:
        """One of several items is at fault, and none is done: that one runs alone, or, not known, each half does."""
        at = event.position
        pieces = bundle.halves() if at is None else [bundle.part(*each) for each in between(bundle.count, [at])]
        self._work.part(pipeline, pieces)
        for piece in pieces:
            if at is not None and piece.serial == bundle.serial + at:
                self._again(piece, pipeline, event.error)
            else:
                self._work.route(piece, pipeline)

    def _again(self, item: Bundle, pipeline: Pipeline, error: str) -> None:
        """A stage raised on this one: it runs again, until its attempts are used up."""
        item.trouble = replace(item.trouble, attempts=item.trouble.attempts + 1)
        self._work.retry(item, pipeline, error, hopeless=item.trouble.attempts >= self._attempts)

    def _refill(self, worker: WorkerState, group: GroupState) -> None:
        """More work for the worker, and for whoever waited for room."""
        # Where workers are short, each is placed anew; one that chose its group stays for a while.
        if worker.group is not None and (not self._crew.short or worker.stays_until_s > self._turn.now_s):
            self._work.dispatch(worker.group)
        if self._course.phase is not None:
            self._transition.advance()
        if group.index or worker.group is not group:
            self._work.feed()
