"""Failures of workers: those that die, hang or do not start. What they held runs again elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from compositions.wording import figure
from runtime.dispatch.events import WorkerAnswered, WorkerId, WorkerLost, WorkerStartFailed
from runtime.dispatch.instructions import AskWorker, KillWorker
from runtime.dispatch.outcomes import StartFailed, WorkersChanged
from runtime.dispatch.pieces import Pieces
from runtime.dispatch.pipeline import TaskInWork
from runtime.dispatch.settings import DispatcherSettings
from runtime.dispatch.staffing import Staffing
from runtime.dispatch.state import State
from runtime.dispatch.transition import Transition
from runtime.dispatch.turn import Turn
from runtime.dispatch.work import Work


class Failures:
    """An item that has cost too many workers leaves as a dead letter in its place. Of several that a worker ran
    together any may be the killer: they are halved until it is alone. Of several tasks that it ran at once, each runs
    alone before it counts a loss."""

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
        self._stages = state.course.stages
        self._turn = turn
        self._settings = settings
        self._stateful = state.stateful
        self._work = work
        self._pieces = Pieces(state, settings, work)
        self._staffing = staffing
        self._transition = transition

    def start_failed(self, event: WorkerStartFailed) -> None:
        failures = self._crew.start_failed(event.at_s + self._settings.restart_pause_s)
        self._turn.outcomes.append(StartFailed(event.at_s, event.reason, failures))
        self._transition.start_failed(event.reason)

    def answered(self, event: WorkerAnswered) -> None:
        if (worker := self._crew.workers.get(event.worker)) is not None:
            worker.heard = max(worker.heard, event.losses)

    def lost(self, event: WorkerLost) -> None:
        if event.worker not in self._crew.workers:
            return
        self._turn.outcomes.append(WorkersChanged(event.at_s, lost=(event.worker,), reason=event.reason))
        self._give_up(event.worker, f"worker {event.worker} was lost: {event.reason or 'no reason given'}")

    def kill_hung(self) -> None:
        """Kills workers whose task has run for longer than its stages may."""
        now_s = self._turn.now_s
        for worker in list(self._crew.workers.values()):
            hung = [task for task in worker.running if self._is_hung(task)]
            if not hung:
                continue
            names = ", ".join(hung[0].group.stages_from(hung[0].bundle.next_stage))
            why = f"{names} did not return within its time limit of {figure(self._limit_s(hung[0]), 6)} s"
            self._turn.instructions.append(KillWorker(worker.worker, why))
            self._turn.outcomes.append(WorkersChanged(now_s, lost=(worker.worker,), reason=why))
            self._give_up(worker.worker, why, hung)

    def _is_hung(self, task: TaskInWork) -> bool:
        return task.since_s is not None and self._turn.now_s - task.since_s > self._limit_s(task)

    def _limit_s(self, task: TaskInWork) -> float:
        stages = self._stages[task.bundle.next_stage : task.group.last + 1]
        return task.count * sum(stage.time_limit_s or self._settings.time_limit_s for stage in stages)

    def _give_up(self, worker_id: WorkerId, why: str, at_fault: list[TaskInWork] | None = None) -> None:
        """A worker is gone: what it ran, or of that what is ``at_fault`` where it is known, counts a loss if that was
        one task; what it had not begun does not; all of it runs elsewhere."""
        worker = self._crew.lose(worker_id)
        assert worker is not None, "only a known worker is given up"
        number = self._crew.restarts
        self._turn.instructions += [AskWorker(other, number) for other in self._crew.workers]
        suspects = self._begun(worker.running) if at_fault is None else at_fault
        self._stateful.lose(worker_id)
        for task in worker.outstanding:
            self._transition.disturb(task)
            if task.picked is not None:
                blamed = task in suspects and not task.void
                self._pieces.lost(task, why, number=number, heard=worker.heard if blamed else None)
                continue
            bundle, pipeline = task.bundle, task.group.pipeline
            task.group.load -= 1
            if task not in suspects:
                self._work.route(bundle, pipeline)
            elif len(suspects) == 1:
                self._suspect(task, why, worker.heard)
            else:
                bundle.trouble = replace(bundle.trouble, suspect=True)
                self._work.route(bundle, pipeline)
        self._staffing.start_missing()
        self._staffing.assign()
        self._work.dispatch_keyed()
        self._transition.advance()

    def _begun(self, tasks: Iterable[TaskInWork]) -> list[TaskInWork]:
        """Workers of one machine are lost together: what the first of them ran is given to the next before that one's
        loss is told in the same moment, and it never had it."""
        return [task for task in tasks if task.since_s is not None and task.since_s < self._turn.now_s]

    def _suspect(self, task: TaskInWork, why: str, heard: int) -> None:
        bundle, pipeline = task.bundle, task.group.pipeline
        if bundle.count == 1:
            bundle.trouble = bundle.trouble.after_loss(self._crew.restarts, heard)
            self._work.retry(bundle, pipeline, why, hopeless=bundle.trouble.losses >= self._settings.losses)
            return
        halves = bundle.halves()
        self._work.part(pipeline, halves)
        for half in halves:
            self._work.route(half, pipeline)
