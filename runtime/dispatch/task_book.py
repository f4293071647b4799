"""The book of tasks: which worker was given what, and what comes back counts only if it is in the book."""

from __future__ import annotations

from runtime.dispatch.pipeline import Bundle, GroupState, TaskInWork, WorkerState


class TaskBook:
    """Numbers tasks. Those that are out are listed with their workers, first given first."""

    __slots__ = ("given",)

    def __init__(self) -> None:
        self.given = 0
        """Tasks so far, and so the next one's number."""

    def give(self, worker: WorkerState, group: GroupState, bundle: Bundle, now_s: float) -> int:
        """Books a task to a worker; returns its number."""
        task_id = self.given
        self.given += 1
        if worker.outstanding:
            worker.outstanding.append(TaskInWork(task_id, bundle, group, prefetched=True))
        else:
            worker.outstanding.append(TaskInWork(task_id, bundle, group, prefetched=False))
            worker.head_since_s = now_s
        return task_id

    def take_back(self, worker: WorkerState | None, task_id: int, now_s: float) -> tuple[TaskInWork, float] | None:
        """The task that a worker returns and since when it was the first in line there; None for a word of a worker
        given up, or of a task that runs elsewhere."""
        if worker is None or not worker.outstanding or worker.outstanding[0].task_id != task_id:
            return None
        task, since_s = worker.outstanding.popleft(), worker.head_since_s
        worker.head_since_s = worker.idle_since_s = now_s
        task.group.load -= 1
        return task, since_s
