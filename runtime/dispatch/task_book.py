"""The book of tasks: which worker was given what, and what comes back counts only if it is in the book."""

from __future__ import annotations

from runtime.dispatch.bundle import Bundle
from runtime.dispatch.pipeline import GroupState, TaskInWork, WorkerState


class TaskBook:
    """Numbers tasks. Those that are out are listed with their workers, first given first."""

    __slots__ = ("given",)

    def __init__(self) -> None:
        self.given = 0
        """Tasks so far, and so the next one's number."""

    def give(
        self, worker: WorkerState, group: GroupState, bundle: Bundle, now_s: float, picked: bytes | None = None
    ) -> int:
        """Books a task to a worker; returns its number. ``picked``: it is a piece of the bundle."""
        task_id = self.given
        self.given += 1
        with_others = bool(worker.outstanding)
        worker.outstanding.append(
            TaskInWork(task_id, bundle, group, with_others, None if with_others else now_s, picked)
        )
        if with_others:
            _note_begun(worker, now_s)
        return task_id

    def take_back(self, worker: WorkerState | None, task_id: int, now_s: float) -> tuple[TaskInWork, float] | None:
        """The task that a worker returns and since when it ran there; None for a word of a worker given up, or of a
        task that runs elsewhere."""
        if worker is None or not (outstanding := worker.outstanding):
            return None
        task: TaskInWork | None = outstanding[0]
        if outstanding[0].task_id != task_id:
            task = _running(worker, task_id)
        if task is None or task.since_s is None:
            return None
        outstanding.remove(task)
        worker.idle_since_s = now_s
        if outstanding:
            _note_begun(worker, now_s)
        if task.picked is None:
            task.group.load -= 1
        return task, task.since_s


def _running(worker: WorkerState, task_id: int) -> TaskInWork | None:
    for task in worker.outstanding:
        if task.task_id == task_id:
            return task
        if task.group.at_once == 1:  # nothing behind it has begun
            return None
    return None


def _note_begun(worker: WorkerState, now_s: float) -> None:
    for task in worker.outstanding:
        if task.since_s is None:
            task.since_s = now_s
        if task.group.at_once == 1:  # as ``running`` has it, which makes a list
            return
