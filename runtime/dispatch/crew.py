"""The worker registry of an app: the live workers, the group that each is bound to, and the desired number. Binding
sends no message to a worker: workers hold all stages, and a task names the ones to run."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from runtime.dispatch.events import WorkerId, WorkerJoined
from runtime.dispatch.pipeline import GroupState, Pipeline, WorkerState


class Crew:
    def __init__(self) -> None:
        self.workers: dict[WorkerId, WorkerState] = {}
        self._starting = 0
        self._start_failures = 0
        self._start_again_s = 0.0
        self.restarts = 0
        self._last_loss_on: dict[str, int] = {}
        """Of each machine: which of the run's lost workers was its last."""
        self._vacancies: deque[int] = deque()
        """Restarts of each lost worker that has no replacement yet."""
        self._lacking = False
        """True if a group has work and no worker."""
        self.short = False
        """There are fewer workers than a composition at work has groups, or they choose their group: they are shared
        over the groups in time."""

    def __len__(self) -> int:
        """Return the number of workers that stay."""
        return sum(not worker.leaves for worker in self.workers.values())

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
            group = state.group
            self.unbind(state)
            self._lacking = self._lacking or (group is not None and not group.workers)
        return state

    def lose(self, worker: WorkerId) -> WorkerState | None:
        """Takes a lost worker off the list; the next one to join takes its place."""
        state = self.remove(worker)
        if state is not None:
            self.restarts += 1
            self._vacancies.append(state.restarts)
        return state

    def went_with_machine(self, lost: WorkerState) -> bool:
        """Note a worker that was just lost; return whether its machine is gone.

        It is, if another was lost there that this one outlived by no word, and all that are left are elsewhere.
        """
        if not lost.node:
            return False
        earlier = self._last_loss_on.get(lost.node, 0)
        self._last_loss_on[lost.node] = self.restarts
        nodes = {worker.node for worker in self.workers.values()}
        return earlier > lost.heard and bool(nodes) and lost.node not in nodes

    def start_missing(self, wanted: int, now_s: float) -> int:
        """Return how many to start, so that ``wanted`` are there or on their way; none during the pause after a
        failure."""
        missing = max(0, wanted - len(self) - self._starting)
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
        """Return the workers that no group has, and that stay."""
        unbound = (worker for worker in self.workers.values() if worker.group is None and not worker.leaves)
        return [worker for worker in unbound if not worker.tests]

    def is_last(self, group: GroupState) -> bool:
        """Return whether the group has only one worker left and another can be started. If groups share workers, all
        workers count."""
        if self._start_failures > 0 and not self._starting:
            return False
        return (len(self.workers) if self.short else len(group.workers) + len(group.leaving)) < 2

    def for_test(self, group: GroupState, active: Pipeline, *, again: bool) -> WorkerState | None:
        """Return a worker that may run a suspect bundle of the group: one with which a worker died. ``again``: two have
        died.

        It is never a group's last worker, and at least one other worker must be left. Order: a free worker; one of
        several of the group, or of any group; during a drain one of the active composition, which waits for the drain
        anyway. At first any free worker will do, before a group without workers gets it: most suspects are harmless,
        and none should wait for another worker. If no worker can be started, any may run it, and in the end the only
        one.
        """
        others = sum(not worker.tests for worker in self.workers.values()) - 1
        if self._start_failures > 0 and not self._starting and (others > 0 or len(self.workers) == 1):
            return next((worker for worker in self.workers.values() if worker.may_test(group)), None)
        free = [worker for worker in self.free() if not worker.outstanding]
        if free and not (again and (others <= 0 or (self._lacking and not self.short))):
            return free[-1]
        if others <= 0:
            return None
        fit = [each for each in self.workers.values() if each.may_test(group) and _spared(each, group, active)]
        return min(fit, key=lambda each: (each.group is not group, len(each.outstanding)), default=None)

    def remove_surplus(self, wanted: int, idle_before_s: float) -> list[WorkerId]:
        """Take free workers beyond ``wanted`` off the list that have had no task since ``idle_before_s``; and those
        that leave, if they have neither group nor task."""
        idle = [w.worker for w in self.free() if not w.outstanding and w.idle_since_s < idle_before_s]
        done = [w.worker for w in self.workers.values() if w.leaves and w.group is None and not w.outstanding]
        gone = [*done, *idle[: max(0, len(self) - wanted)]]
        for worker in gone:
            self.remove(worker)
        return gone

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
            surplus = max(0, len(group.workers) - group.group.replicas - group.tested)
            for worker in sorted(group.workers, key=lambda worker: len(worker.outstanding))[:surplus]:
                _let_go(self, group, worker)

    def free_left(self, pipeline: Pipeline, has_left: Callable[[GroupState, WorkerState], bool]) -> bool:
        """Frees those that were leaving and have. Returns whether any was."""
        gone = [worker for group in pipeline.groups for worker in group.leaving if has_left(group, worker)]
        for worker in gone:
            self.unbind(worker)
        return bool(gone)

    def release_dry(self, draining: Pipeline) -> bool:
        """Frees idle workers of a draining pipeline that no remaining item can need: a pipeline drains from the front,
        and the new composition fills up behind it with the same workers. Returns whether any was freed."""
        freed = False
        for group, ahead in _ahead(draining):
            for worker in [w for w in (*group.leaving, *group.workers) if not w.outstanding]:
                if len(group.workers) + len(group.leaving) > ahead:
                    self.unbind(worker)
                    freed = True
        return freed

    def assign(self, draining: Pipeline | None, active: Pipeline) -> list[GroupState]:
        """Bind free workers to the groups that need them, and return the groups that got one.

        Order of groups: those of the old composition with items and no worker, to which the active composition lends
        even its last worker, because its own items wait for them; those of the active composition without a worker; its
        further replicas from the front. Order of workers: those that are leaving that group, then idle ones, then those
        that end a task first. A group that still has no worker borrows one from the group with the most, if that has
        two. If workers choose their work, the active composition needs no binding: they come when they are idle.
        """
        _relieve(self)
        changed = []
        present = [each for each in (draining, active) if each is not None]
        there = sum(worker.group is not None or not worker.tests for worker in self.workers.values())
        self.short = any(_shares(each, there) for each in present)
        if self.short:  # they are needed elsewhere
            for pipeline in present:
                self.free_left(pipeline, lambda group, worker: True)
        free = sorted(self.free(), key=lambda worker: -len(worker.outstanding))
        for group in list(_wanting(draining, active)):
            back = [worker for worker in group.leaving if not worker.leaves]
            worker = back[-1] if back else free.pop() if free else None
            if worker is None and group.pipeline is not active and not self.short:
                worker = _lent(group, active)
            if worker is not None:
                self.bind(worker, group)
                changed.append(group)
        for group in active.groups if active.roaming is None else ():
            if not group.workers and (worker := _borrowed(active.groups, least=2)):
                self.bind(worker, group)
                changed.append(group)
        self._lacking = any(not group.workers for group in _wanting(draining, active))
        return changed

    def idle(self) -> list[WorkerState]:
        """Return the workers without a task, but for those that leave and have somebody to take their work."""
        stays = len(self) > 0
        return [each for each in self.workers.values() if not each.outstanding and not (each.leaves and stays)]


def _relieve(crew: Crew) -> None:
    """Have free workers take the places of those that leave; one with partitions leaves when they have moved."""
    for worker in [each for each in crew.workers.values() if each.leaves and each.group is not None]:
        group, free = worker.group, crew.free()
        if group is not None and free and worker not in group.leaving:
            _let_go(crew, group, worker)
            crew.bind(min(free, key=lambda each: len(each.outstanding)), group)


def _let_go(crew: Crew, group: GroupState, worker: WorkerState) -> None:
    """Take a worker off its group, or, where it holds partitions, begin to."""
    if group.keyed and group.pipeline.roaming is None and not crew.short:
        group.workers.remove(worker)
        group.leaving.append(worker)
    else:
        crew.unbind(worker)


def _shares(pipeline: Pipeline, workers: int) -> bool:
    return pipeline.roaming is not None or workers < len(pipeline.groups)


def _wanting(draining: Pipeline | None, active: Pipeline) -> Iterable[GroupState]:
    if draining is not None:
        for group, ahead in _ahead(draining):
            wanted = group.group.replicas if draining.migrating else 1
            yield from [group] * (min(wanted + group.tested, ahead) - len(group.workers))
    if active.roaming is not None:
        return
    yield from [group for group in active.groups if not group.workers]
    for group in active.groups:
        yield from [group] * (group.group.replicas + group.tested - max(1, len(group.workers)))


def _spared(worker: WorkerState, group: GroupState, active: Pipeline) -> bool:
    """Return whether the worker's own group can do without it while it runs a suspect bundle of ``group``."""
    own = worker.group
    if own is None or not own.load:
        return own is not None
    return (own.pipeline is active is not group.pipeline) or sum(not each.tests for each in own.workers) > 1


def _ahead(draining: Pipeline) -> Iterable[tuple[GroupState, int]]:
    """Return each group of the old composition with the number of bundles that may still need one of its workers. After
    the drain limit only bundles that have entered a partitioned stage count: they can run nowhere else."""
    ahead = 0
    for group in draining.groups:
        ahead = group.load * group.keyed if draining.migrating else ahead + group.load
        yield group, ahead + group.tested


def _lent(group: GroupState, active: Pipeline) -> WorkerState | None:
    """Return a worker for a group of the old composition. If the group already has one, workers at its stage in the
    active composition come first: nothing passes there until the old composition has drained."""
    if group.workers:
        others = [each for each in group.pipeline.groups if each is not group]
        near = _borrowed([active.by_stage[group.first]], least=1)
        return near or _borrowed(active.groups, least=1) or _borrowed(others, least=2)
    return _borrowed([*active.groups, *group.pipeline.groups], least=2) or _borrowed(active.groups, least=1)


def _borrowed(groups: Sequence[GroupState], least: int) -> WorkerState | None:
    """Return the least busy worker of the group with the most workers, if it has at least ``least``."""
    lender = max(groups, key=lambda group: len(group.workers), default=None)
    if lender is None or len(lender.workers) < least:
        return None
    return min(reversed(lender.workers), key=lambda worker: len(worker.outstanding))
