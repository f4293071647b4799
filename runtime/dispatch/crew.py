"""The workers of an app: who is there, who is bound to which group, how many are wanted. No message goes to a worker
for a binding: workers hold all stages, and a task names the ones to run."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from runtime.dispatch.events import WorkerId, WorkerJoined
from runtime.dispatch.pipeline import GroupState, Pipeline, WorkerState


class Crew:
    def __init__(self) -> None:
        self.workers: dict[WorkerId, WorkerState] = {}
        self._starting = 0
        self._start_failures = 0
        self._start_again_s = 0.0
        self.restarts = 0
        self._vacancies: deque[int] = deque()
        """Restarts of each lost worker that has no replacement yet."""
        self.short = False
        """There are fewer workers than a composition at work has groups, or they choose their group: they are shared
        over the groups in time."""

    def __len__(self) -> int:
        return len(self.workers)

    def join(self, event: WorkerJoined) -> None:
        self._starting = max(0, self._starting - 1)
        self._start_failures = 0
        restarts = self._vacancies.popleft() + 1 if self._vacancies else 0
        self.workers[event.worker] = WorkerState(
            event.worker, event.pid, event.node, event.at_s, restarts, heard=self.restarts
        )

    def remove(self, worker: WorkerId) -> WorkerState | None:
        """Takes a worker off the list and off its group; None when it was not on it any more."""
        state = self.workers.pop(worker, None)
        if state is not None:
            self.unbind(state)
        return state

    def lose(self, worker: WorkerId) -> WorkerState | None:
        """Takes a lost worker off the list; the next one to join takes its place."""
        state = self.remove(worker)
        if state is not None:
            self.restarts += 1
            self._vacancies.append(state.restarts)
        return state

    def start_missing(self, wanted: int, now_s: float) -> int:
        """How many to start, so that ``wanted`` are there or on their way; none during the pause after a failure."""
        missing = max(0, wanted - len(self.workers) - self._starting)
        if now_s < self._start_again_s:
            return 0
        self._starting += missing
        return missing

    def start_failed(self, start_again_s: float) -> int:
        """A worker did not come up; returns how many in a row."""
        self._starting = max(0, self._starting - 1)
        self._start_failures += 1
        self._start_again_s = start_again_s
        return self._start_failures

    # --- bindings ---------------------------------------------------------------------------------------------------

    def free(self) -> list[WorkerState]:
        return [worker for worker in self.workers.values() if worker.group is None]

    def remove_surplus(self, wanted: int, idle_before_s: float) -> list[WorkerId]:
        """Takes free workers beyond ``wanted`` off the list that have had no task since ``idle_before_s``."""
        idle = [w.worker for w in self.free() if not w.outstanding and w.idle_since_s < idle_before_s]
        surplus = idle[: max(0, len(self.workers) - wanted)]
        for worker in surplus:
            self.remove(worker)
        return surplus

    def bind(self, worker: WorkerState, group: GroupState) -> None:
        """The newest comes first: who joins a group for its load takes part at once, whoever else is idle."""
        self.unbind(worker)
        worker.group = group
        group.workers.insert(0, worker)

    def unbind(self, worker: WorkerState) -> None:
        if worker.group is not None:
            listed = worker.group.leaving if worker in worker.group.leaving else worker.group.workers
            listed.remove(worker)
            worker.group = None

    def release(self, pipeline: Pipeline) -> None:
        """Frees all workers of a pipeline that has nothing left to do."""
        for group in pipeline.groups:
            for worker in (*group.workers, *group.leaving):
                self.unbind(worker)

    def release_surplus(self, pipeline: Pipeline) -> None:
        """Takes workers beyond its replicas off each group, idle ones first. One that has tasks ends them, its
        prefetched one too, and gets no more; one that has partitions leaves when they have moved (``free_left``)."""
        for group in pipeline.groups:
            surplus = max(0, len(group.workers) - group.group.replicas)
            for worker in sorted(group.workers, key=lambda worker: len(worker.outstanding))[:surplus]:
                if group.keyed and pipeline.roaming is None and not self.short:
                    group.workers.remove(worker)
                    group.leaving.append(worker)
                else:
                    self.unbind(worker)

    def free_left(self, pipeline: Pipeline, has_left: Callable[[GroupState, WorkerState], bool]) -> bool:
        """Frees those that were leaving and have. Returns whether any was."""
        gone = [worker for group in pipeline.groups for worker in group.leaving if has_left(group, worker)]
        for worker in gone:
            self.unbind(worker)
        return bool(gone)

    def release_dry(self, draining: Pipeline) -> bool:
        """Frees idle workers of a draining pipeline that no remaining item can need: a pipeline drains from the front,
        and the new composition fills up behind it with the same workers. Returns whether any was freed."""
        freed, ahead = False, 0
        for group in draining.groups:
            ahead += group.load
            for worker in [w for w in (*group.leaving, *group.workers) if not w.outstanding]:
                if len(group.workers) + len(group.leaving) > ahead:
                    self.unbind(worker)
                    freed = True
        return freed

    def assign(self, draining: Pipeline | None, active: Pipeline) -> list[GroupState]:
        """Binds free workers where they are wanted; returns the groups that got one.

        Order: groups of the old composition that still have items and nobody to run them; groups of the active one that
        have nobody; its further replicas from the front; idle workers before those that end a task first, and who is
        leaving that group before all. A group still left with nobody borrows a worker from the group with the most, if
        that has two. Where workers choose, the active composition wants none: they come when they are idle.
        """
        changed = []
        present = [each for each in (draining, active) if each is not None]
        self.short = any(_shares(each, len(self.workers)) for each in present)
        if self.short:  # they are needed elsewhere
            for pipeline in present:
                self.free_left(pipeline, lambda group, worker: True)
        free = sorted(self.free(), key=lambda worker: -len(worker.outstanding))
        for group in list(_wanting(draining, active)):
            if (worker := group.leaving[-1] if group.leaving else free.pop() if free else None) is not None:
                self.bind(worker, group)
                changed.append(group)
        for group in active.groups if active.roaming is None else ():
            if not group.workers and (lender := _lender(active)):
                self.bind(min(reversed(lender.workers), key=lambda worker: len(worker.outstanding)), group)
                changed.append(group)
        return changed

    def idle(self) -> list[WorkerState]:
        return [worker for worker in self.workers.values() if not worker.outstanding]


def _shares(pipeline: Pipeline, workers: int) -> bool:
    return pipeline.roaming is not None or workers < len(pipeline.groups)


def _wanting(draining: Pipeline | None, active: Pipeline) -> Iterable[GroupState]:
    if draining is not None:
        ahead = 0
        for group in draining.groups:
            ahead += group.load
            if ahead and not group.workers:
                yield group
    if active.roaming is not None:
        return
    yield from [group for group in active.groups if not group.workers]
    for group in active.groups:
        yield from [group] * (group.group.replicas - max(1, len(group.workers)))


def _lender(active: Pipeline) -> GroupState | None:
    lender = max(active.groups, key=lambda group: len(group.workers))
    return lender if len(lender.workers) > 1 else None
