"""Handle results, failures and lost workers: pass items on or run them again, and send the worker more tasks."""

import re
from collections.abc import Iterable
from dataclasses import replace

from compositions.wording import figure
from runtime.construct import construct_fast
from runtime.dispatch.bundle import Bundle, values_of_part
from runtime.dispatch.events import TaskDone, TaskFailed, WorkerAnswered, WorkerId, WorkerLost, WorkerStartFailed
from runtime.dispatch.instructions import AskWorker, KillWorker
from runtime.dispatch.keyed.split import Piece
from runtime.dispatch.outcomes import OutOfMemory, StartFailed, TaskTimed, Turn, WorkersChanged
from runtime.dispatch.pipeline import GroupState, Pipeline, TaskInWork, WorkerState
from runtime.dispatch.settings import DispatcherSettings
from runtime.dispatch.staffing import Staffing
from runtime.dispatch.state import State
from runtime.dispatch.transition import Transition
from runtime.dispatch.work import Work, between
from runtime.scheduling.port import Visit

_OUT_OF_MEMORY = re.compile(r"^([\w.]+\.)?(MemoryError|OutOfMemoryError)\b", re.MULTILINE)
"""The out-of-memory errors of Python, CuPy and PyTorch, in the last lines of a traceback."""


class Pieces:
    """Handles tasks on pieces of split bundles. A value at fault is cut out of its piece, as an item is out of its
    bundle: the values before it run first, then the value alone, then those after it. In the end its item becomes a
    dead letter. The worker has already undone the state changes of a failed task."""

    def __init__(self, state: State, settings: DispatcherSettings, work: Work) -> None:
        self._partitioned = state.stateful.partitioned
        self._settings = settings
        self._work = work

    def done(self, task: TaskInWork, event: TaskDone, size_bytes: int) -> None:
        piece = self._end(task)
        piece.assembly.put(piece, event.payload, size_bytes, event.keyed.routes, task.made(event.values))
        self._work.piece_over(task.group, piece.assembly)

    def failed(self, task: TaskInWork, event: TaskFailed) -> None:
        """Handle a stage error on one of the piece's values."""
        piece = self._end(task)
        if piece.count == 1:
            before = piece.assembly.trouble(piece)
            cost = piece.assembly.note(piece, replace(before, attempts=before.attempts + 1))
            self._again(piece, event.error, hopeless=cost.attempts >= self._settings.attempts)
        elif event.position is None:
            piece.assembly.halve(piece)
            piece.assembly.again(piece)
        else:
            piece.assembly.isolate(piece, event.position)
            piece.assembly.again(piece)
        self._work.piece_over(task.group, piece.assembly)

    def refused(self, task: TaskInWork) -> None:
        """Run a piece again that its worker skipped because the piece before it failed; count no failure."""
        piece = self._end(task)
        piece.assembly.again(piece)
        self._work.piece_over(task.group, piece.assembly)

    def lost(self, task: TaskInWork, why: str, *, number: int, heard: int | None) -> None:
        """Run a piece again whose worker was lost, the run's ``number``-th loss. ``heard``: if the piece may have
        killed the worker, the argument of ``Trouble.after_loss``; None if it cannot have."""
        piece = self._end(task)
        if heard is None:
            piece.assembly.again(piece)
        elif piece.count == 1:
            before = piece.assembly.trouble(piece)
            cost = piece.assembly.note(piece, before.after_loss(number, heard))
            if cost is not before:
                self._killed(task, piece)
            self._again(piece, why, hopeless=cost.losses >= self._settings.losses)
        else:
            self._killed(task, piece)
            piece.assembly.halve(piece)
            piece.assembly.again(piece)
        self._work.piece_over(task.group, piece.assembly)

    def _killed(self, task: TaskInWork, piece: Piece) -> None:
        """Record that a worker died with the piece. After one death the piece runs again as it is, as most pieces are
        harmless; after two it must not run in the group's last worker."""
        piece.assembly.killed(piece)
        if piece.assembly.deaths > 1:
            task.group.pipeline.tested.add(task.group)

    def _again(self, piece: Piece, error: str, *, hopeless: bool) -> None:
        if hopeless:
            piece.assembly.give_up(piece, error)
        else:
            piece.assembly.again(piece)

    def _end(self, task: TaskInWork) -> Piece:
        assert task.picked is not None, "a task of a whole bundle is no piece"
        keys = self._partitioned[task.group.first]
        piece = keys.piece(task.bundle, task.picked)
        keys.end(piece)
        return piece


class Failures:
    """Handles items whose workers die or hang.

    An item that has cost too many workers becomes a dead letter in its place. If a worker died with several items in
    one task, any may be the cause: the task is halved until that item is alone. If the worker ran several tasks at
    once, each must run alone before a loss counts against it. A suspect runs beside the stream, in a worker that its
    group can do without (``Crew.for_test``).
    """

    def __init__(
        self,
        state: State,
        turn: Turn,
        settings: DispatcherSettings,
        work: Work,
        staffing: Staffing,
        transition: Transition,
    ) -> None:
        self._crew = state.crew
        self._course = state.course
        self._stages = state.course.stages
        self._turn = turn
        self._settings = settings
        self._stateful = state.stateful
        self._work = work
        self._pieces = Pieces(state, settings, work)
        self._staffing = staffing
        self._transition = transition

    def start_failed(self, event: WorkerStartFailed) -> None:
        failures = self._crew.start_failed(event.loads, event.at_s + self._settings.restart_pause_s)
        self._turn.outcomes.append(StartFailed(event.at_s, event.reason, failures, event.passing))
        self._transition.start_failed(event.reason)

    def answered(self, event: WorkerAnswered) -> None:
        if (worker := self._crew.workers.get(event.worker)) is not None:
            worker.heard = max(worker.heard, event.losses)

    def lost(self, event: WorkerLost) -> None:
        if (state := self._crew.workers.get(event.worker)) is None:
            return
        lost = WorkersChanged(event.at_s, (), (event.worker,), event.reason, state.pid, state.node)
        self._turn.outcomes.append(lost)
        self._give_up(event.worker, f"worker {event.worker} was lost: {event.reason or 'no reason given'}")

    def kill_hung(self) -> None:
        """Kill workers whose task exceeds the time limits of its stages."""
        now_s = self._turn.now_s
        for worker in list(self._crew.workers.values()):
            hung = [task for task in worker.running if self._is_hung(task)]
            if not hung:
                continue
            names = ", ".join(hung[0].group.stages_from(hung[0].bundle.next_stage))
            why = f"{names} did not return within its time limit of {figure(self._limit_s(hung[0]), 6)} s"
            self._turn.instructions.append(KillWorker(worker.worker, why))
            self._turn.outcomes.append(WorkersChanged(now_s, (), (worker.worker,), why, worker.pid, worker.node))
            self._give_up(worker.worker, why, hung)

    def _is_hung(self, task: TaskInWork) -> bool:
        return task.since_s is not None and self._turn.now_s - task.since_s > self._limit_s(task)

    def _limit_s(self, task: TaskInWork) -> float:
        stages = self._stages[task.bundle.next_stage : task.group.last + 1]
        return task.count * sum(stage.time_limit_s or self._settings.time_limit_s for stage in stages)

    def _give_up(self, worker_id: WorkerId, why: str, at_fault: list[TaskInWork] | None = None) -> None:
        """Remove a dead worker and run its tasks elsewhere. The suspects are the tasks ``at_fault``; if None, all tasks
        that it was running. A single suspect task counts a loss; tasks that had not begun never do."""
        worker = self._crew.lose(worker_id)
        assert worker is not None, "only a known worker is given up"
        number = self._crew.restarts
        self._turn.instructions += [AskWorker(other, number) for other in self._crew.workers]
        suspects = self._begun(worker.running) if at_fault is None else at_fault
        self._stateful.lose(worker_id)
        for task in worker.outstanding:
            self._course.disturb(task.group.pipeline)
            if task.picked is not None:
                blamed = task in suspects and not task.void
                self._pieces.lost(task, why, number=number, heard=worker.heard if blamed else None)
                continue
            bundle, pipeline = task.bundle, task.group.pipeline
            task.group.load -= 1
            if task not in suspects:
                self._work.route(bundle, pipeline)
            elif len(suspects) == 1:
                self._suspect(task, why, worker)
            else:
                bundle.trouble = bundle.trouble.after_death(number, worker.node)
                self._work.route(bundle, pipeline)
        if at_fault is None and self._crew.went_with_machine(worker):
            self._acquit(worker)
        self._staffing.start_missing()
        self._staffing.assign()
        self._work.dispatch_keyed()

    def _begun(self, tasks: Iterable[TaskInWork]) -> list[TaskInWork]:
        """Return the tasks that began before this moment. If a machine dies, all its workers are reported lost at one
        time: a task of the first may have been sent to another dead one, which never received it."""
        return [task for task in tasks if task.since_s is not None and task.since_s < self._turn.now_s]

    def _acquit(self, last: WorkerState) -> None:
        """Clear the suspects of a machine that died: they did not cause the losses, and run as usual again."""
        for pipeline in self._course.pipelines:
            for group in pipeline.groups:
                for bundle in group.acquit(last.node, last.heard):
                    self._work.route(bundle, pipeline)

    def _suspect(self, task: TaskInWork, why: str, lost: WorkerState) -> None:
        bundle, pipeline = task.bundle, task.group.pipeline
        if bundle.count == 1:
            bundle.trouble = bundle.trouble.after_loss(self._crew.restarts, lost.heard, lost.node)
            self._work.retry(bundle, pipeline, why, hopeless=bundle.trouble.losses >= self._settings.losses)
            return
        bundle.trouble = bundle.trouble.after_death(self._crew.restarts, lost.node)
        halves = bundle.halves()
        self._work.part(pipeline, halves)
        for half in halves:
            self._work.route(half, pipeline)


class Results:
    """Handles the results that workers send. A late result of a lost worker is ignored: its task runs elsewhere."""

    def __init__(self, state: State, turn: Turn, settings: DispatcherSettings, work: Work, staffing: Staffing) -> None:
        self._crew = state.crew
        self._tasks = state.tasks
        self._course = state.course
        self._stateful = state.stateful
        self._started = state.outbox.started
        self._turn = turn
        self._attempts = settings.attempts
        self._work = work
        self._staffing = staffing
        self._pieces = Pieces(state, settings, work)

    def done(self, event: TaskDone, busy_s: float, size_bytes: int) -> None:
        """Handle a task that ended: it spent ``busy_s`` in its stages and returned a payload of ``size_bytes``."""
        at_s, name, task_id, payload, timings, _, faults, keyed, values = event
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
        group.timed(worker, busy_s, count, (at_s - since_s) / count)
        group.settle_depth()
        if pipeline.roaming is not None:
            pipeline.roaming.note(group.index, Visit(since_s, at_s, task.values, task.made(values), busy_s))
        overlapped = task.with_others or (group.at_once > 1 and count > 1)
        hop_s = None if overlapped else max(0.0, at_s - since_s - busy_s)
        timed = at_s, pipeline.composition.name, timings, hop_s, in_bytes, bundle.serial, count, worker.node
        self._turn.outcomes.append(construct_fast(TaskTimed, timed))
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
            bundle.advance(group.last + 1, payload, values, 0, keyed.routes)
            self._work.route(bundle, pipeline)
        self._refill(worker, group)

    def _go_apart(self, task: TaskInWork, event: TaskDone, size_bytes: int) -> None:
        """Split a bundle: items that a stage raised on run again, each alone; the others go on."""
        self._course.disturb(task.group.pipeline)
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
                made = values_of_part(event.values, stop - begin, bundle.count)
                piece.advance(end, event.payload, made, begin, routes and routes.part(begin, stop))
                self._work.route(piece, pipeline)

    def failed(self, event: TaskFailed) -> None:
        """Handle a stage error: the task runs again, here or elsewhere, until its attempts are used up."""
        worker = self._crew.workers.get(event.worker)
        back = self._tasks.take_back(worker, event.task_id, event.at_s)
        if worker is None or back is None:
            return
        task, _ = back
        self._course.disturb(task.group.pipeline)
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
        """Split a failed bundle of several items: the item at fault runs alone, or, if unknown, each half does."""
        at = event.position
        if _OUT_OF_MEMORY.search(event.error):
            name = pipeline.composition.name
            self._turn.outcomes.append(OutOfMemory(event.at_s, name, event.stage, bundle.count))
        pieces = bundle.halves() if at is None else [bundle.part(*each) for each in between(bundle.count, [at])]
        self._work.part(pipeline, pieces)
        for piece in pieces:
            if at is not None and piece.serial == bundle.serial + at:
                self._again(piece, pipeline, event.error)
            else:
                self._work.route(piece, pipeline)

    def _again(self, item: Bundle, pipeline: Pipeline, error: str) -> None:
        """Run an item again that a stage raised on, until its attempts are used up."""
        item.trouble = replace(item.trouble, attempts=item.trouble.attempts + 1)
        self._work.retry(item, pipeline, error, hopeless=item.trouble.attempts >= self._attempts)

    def _refill(self, worker: WorkerState, group: GroupState) -> None:
        """Send more tasks to the worker, and start bundles that waited for room."""
        if worker.group is None:  # the worker ran a suspect, or belongs to an earlier composition
            self._staffing.assign()
        # If workers are short, each one is placed again after a task; one that chose its group stays for a while.
        elif not self._crew.short or worker.stays_until_s > self._turn.now_s:
            self._work.dispatch(worker.group)
        if group.index or worker.group is not group:
            self._work.feed()
