"""The worker registry of an app: the live workers, the group that each is bound to, and the workers being started.
Binding sends no message: a worker holds all stages that its class loads, and each task names the stages to run. Only
workers of a group's own class serve the group. A worker never changes its class: loading takes long, whereas starting
another worker does not hold up the stream."""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from compositions.model import Loads
from runtime.dispatch.events import WorkerId, WorkerJoined
from runtime.dispatch.pipeline import GroupState, Pipeline, WorkerState


class Crew:
    def __init__(self) -> None:
        self.workers: dict[WorkerId, WorkerState] = {}
        self._starting: dict[Loads, int] = {}
        self._start_failures = 0
        self._start_again_s = 0.0
        self.restarts = 0
        self._last_loss_on: dict[str, int] = {}
        """The number, among the run's worker losses, of the last loss on each machine."""
        self._vacancies: deque[int] = deque()
        """The number of restarts of each lost worker that has no replacement yet."""
        self._lacking = False
        """True if a group has work and no worker."""
        self.short = False
        """True if workers alternate between groups: a class has fewer workers than groups in a running composition, or
        workers choose their group (dynamic scheduling)."""

    def staying(self) -> Counter[Loads]:
        """Return the number of workers of each class that stay."""
        return Counter(worker.loads for worker in self.workers.values() if not worker.leaves)

    def join(self, event: WorkerJoined) -> None:
        self._starting[event.loads] = max(0, self._starting.get(event.loads, 0) - 1)
        self._start_failures = 0
        restarts = self._vacancies.popleft() + 1 if self._vacancies else 0
        self.workers[event.worker] = WorkerState(
            event.worker, event.pid, event.node, event.at_s, event.loads, restarts, heard=self.restarts
        )

    def remove(self, worker: WorkerId) -> WorkerState | None:
        """Remove a worker from the registry and its group, and return it; None if it is not registered."""
        state = self.workers.pop(worker, None)
        if state is not None:
            group = state.group
            self.unbind(state)
            self._lacking = self._lacking or (group is not None and not group.workers)
        return state

    def lose(self, worker: WorkerId) -> WorkerState | None:
        """Remove a lost worker, and return it; the next worker that joins counts as its replacement."""
        state = self.remove(worker)
        if state is not None:
            self.restarts += 1
            self._vacancies.append(state.restarts)
        return state

    def went_with_machine(self, lost: WorkerState) -> bool:
        """Record a worker that was just lost, and return whether its machine is gone.

        The machine counts as gone if another of its workers was lost earlier, this one was not heard of after that, and
        all remaining workers are on other machines.
        """
        if not lost.node:
            return False
        earlier = self._last_loss_on.get(lost.node, 0)
        self._last_loss_on[lost.node] = self.restarts
        nodes = {worker.node for worker in self.workers.values()}
        return earlier > lost.heard and bool(nodes) and lost.node not in nodes

    def start_missing(self, wanted: Counter[Loads], now_s: float) -> Mapping[Loads, int]:
        """Return the number of workers to start of each class, beside those starting; none in a pause after failure."""
        if now_s < self._start_again_s:
            return {}
        missing = wanted - self.staying() - Counter(self._starting)
        for loads, count in missing.items():
            self._starting[loads] = self._starting.get(loads, 0) + count
        return missing

    def start_failed(self, loads: Loads, start_again_s: float) -> int:
        """Record a worker that failed to start; return the number of failures in a row."""
        self._starting[loads] = max(0, self._starting.get(loads, 0) - 1)
        self._start_failures += 1
        self._start_again_s = start_again_s
        return self._start_failures

    # --- bindings ---------------------------------------------------------------------------------------------------

    def free(self) -> list[WorkerState]:
        """Return the workers that are bound to no group, run no suspect and are not about to leave."""
        unbound = (worker for worker in self.workers.values() if worker.group is None and not worker.leaves)
        return [worker for worker in unbound if not worker.tests]

    def is_last(self, group: GroupState) -> bool:
        """Return whether the group (if groups share workers: its class) has at most one worker and may get another."""
        if self._start_failures > 0 and not any(self._starting.values()):
            return False
        return (len(_fit(self.workers.values(), group)) if self.short else len(group.workers) + len(group.leaving)) < 2

    def for_test(self, group: GroupState, active: Pipeline, *, again: bool) -> WorkerState | None:
        """Return a worker that may run a suspect bundle of the group (one that a worker died with), or None. ``again``:
        two workers have died with the bundle.

        The worker is never a group's last one, and at least one other must be left. Order: a free worker; one of
        several of the group, or of any group; during a drain one of the active composition, which waits for the drain
        anyway. A first suspicion takes a free worker even before a group without workers does: most suspects are
        harmless and should not wait. If no worker can be started, any may run the suspect, at last even the only one.
        """
        fellows = _fit(self.workers.values(), group)
        others = sum(not worker.tests for worker in fellows) - 1
        if self._start_failures > 0 and not any(self._starting.values()) and (others > 0 or len(fellows) == 1):
            return next((worker for worker in fellows if worker.may_test(group)), None)
        free = [worker for worker in _fit(self.free(), group) if not worker.outstanding]
        if free and not (again and (others <= 0 or (self._lacking and not self.short))):
            return free[-1]
        if others <= 0:
            return None
        fit = [each for each in fellows if each.may_test(group) and _spared(each, group, active)]
        return min(fit, key=lambda each: (each.group is not group, len(each.outstanding)), default=None)

    def remove_surplus(self, wanted: Counter[Loads], idle_before_s: float) -> list[WorkerId]:
        """Remove free workers beyond ``wanted`` that have had no task since ``idle_before_s``, and leaving workers that
        have neither group nor task. Return the removed workers."""
        surplus = self.staying() - wanted
        gone = [w.worker for w in self.workers.values() if w.leaves and w.group is None and not w.outstanding]
        for worker in self.free() if surplus else ():
            if surplus[worker.loads] > 0 and not worker.outstanding and worker.idle_since_s < idle_before_s:
                surplus[worker.loads] -= 1
                gone.append(worker.worker)
        for name in gone:
            self.remove(name)
        return gone

    def bind(self, worker: WorkerState, group: GroupState) -> None:
        """Bind a worker to a group, as its first: a newly bound worker gets the next task even if others are idle."""
        self.unbind(worker)
        worker.group, worker.timed = group, 0
        group.workers.insert(0, worker)

    def unbind(self, worker: WorkerState) -> None:
        if worker.group is not None:
            listed = worker.group.leaving if worker in worker.group.leaving else worker.group.workers
            listed.remove(worker)
            worker.group = None

    def release(self, pipeline: Pipeline) -> None:
        """Unbind all workers of a pipeline that has nothing left to do."""
        for group in pipeline.groups:
            for worker in (*group.workers, *group.leaving):
                self.unbind(worker)

    def release_surplus(self, pipeline: Pipeline) -> None:
        """Release the surplus workers of each group, slow ones first, then idle ones. A busy worker finishes its tasks,
        prefetched ones included, and gets no more. A worker with partitions leaves once these have moved
        (``free_left``)."""
        for group in pipeline.groups:
            surplus = max(0, len(group.workers) - group.group.replicas - group.tested)
            if surplus:
                ranked = sorted(group.workers, key=lambda each: (not group.slow(each), len(each.outstanding)))
                for worker in ranked[:surplus]:
                    _let_go(self, group, worker)

    def free_left(self, pipeline: Pipeline, has_left: Callable[[GroupState, WorkerState], bool]) -> bool:
        """Unbind the leaving workers for which ``has_left`` is true. Return whether there was any."""
        gone = [worker for group in pipeline.groups for worker in group.leaving if has_left(group, worker)]
        for worker in gone:
            self.unbind(worker)
        return bool(gone)

    def release_dry(self, draining: Pipeline) -> bool:
        """Unbind idle workers of a draining pipeline that no remaining item can need. A pipeline drains from the front,
        and the new composition fills up behind it with the same workers. Return whether any was unbound."""
        freed = False
        for group, ahead in _ahead(draining):
            for worker in [w for w in (*group.leaving, *group.workers) if not w.outstanding]:
                if len(group.workers) + len(group.leaving) > ahead:
                    self.unbind(worker)
                    freed = True
        return freed

    def assign(self, draining: Pipeline | None, active: Pipeline) -> list[GroupState]:
        """Bind free workers to the groups that need them, and return the groups that got one.

        Order of groups: groups of the old composition with items and no worker, groups of the active composition
        without a worker, then its further replicas from the front. The active composition lends even its last worker to
        the old one, because its own items wait for the drain. Order of workers: workers leaving that group, idle
        workers, then the least busy. A group that still has no worker borrows one from the largest group, if that has
        two. With dynamic scheduling the active composition needs no binding: idle workers choose their group.
        """
        _relieve(self)
        changed = []
        present = [each for each in (draining, active) if each is not None]
        there = Counter(w.loads for w in self.workers.values() if w.group is not None or not w.tests)
        self.short = any(_shares(each, there) for each in present)
        if self.short:  # leaving workers are needed elsewhere
            for pipeline in present:
                self.free_left(pipeline, lambda group, worker: True)
        free = sorted(self.free(), key=lambda worker: -len(worker.outstanding))
        for group in list(_wanting(draining, active)):
            back = [worker for worker in group.leaving if not worker.leaves]
            worker = back[-1] if back else _taken(free, group)
            if worker is None and group.pipeline is not active and not self.short:
                worker = _lent(group, active)
            if worker is not None:
                self.bind(worker, group)
                changed.append(group)
        for group in active.groups if active.roaming is None else ():
            if not group.workers and (worker := _borrowed(active.groups, group, least=2)):
                self.bind(worker, group)
                changed.append(group)
        self._lacking = any(not group.workers for group in _wanting(draining, active))
        return changed

    def idle(self) -> list[WorkerState]:
        """Return the workers without a task, except leaving ones whose class has a worker that stays."""
        stay = self.staying()
        return [each for each in self.workers.values() if not (each.outstanding or (each.leaves and stay[each.loads]))]


def _relieve(crew: Crew) -> None:
    """Replace leaving workers by free ones; a worker with partitions leaves once these have moved."""
    for worker in [each for each in crew.workers.values() if each.leaves and each.group is not None]:
        group = worker.group
        if group is not None and worker not in group.leaving and (free := _fit(crew.free(), group)):
            _let_go(crew, group, worker)
            crew.bind(min(free, key=lambda each: len(each.outstanding)), group)


def _let_go(crew: Crew, group: GroupState, worker: WorkerState) -> None:
    """Unbind a worker from its group; if the group is partitioned, list it as leaving until its partitions moved."""
    if group.keyed and group.pipeline.roaming is None and not crew.short:
        group.workers.remove(worker)
        group.leaving.append(worker)
    else:
        crew.unbind(worker)


def _fit(workers: Iterable[WorkerState], group: GroupState) -> list[WorkerState]:
    """Return the workers that can serve the group."""
    loads = group.loads
    return [worker for worker in workers if worker.loads == loads]


def _taken(free: list[WorkerState], group: GroupState) -> WorkerState | None:
    """Remove and return the last worker of ``free`` that can serve the group; None if no worker can."""
    at = next((at for at in reversed(range(len(free))) if free[at].loads == group.loads), None)
    return None if at is None else free.pop(at)


def _shares(pipeline: Pipeline, there: Counter[Loads]) -> bool:
    """Return whether workers alternate between groups, as a class has too few. A class without workers does not count:
    its groups wait for the first worker to start."""
    if pipeline.roaming is not None or not there:
        return True
    groups = Counter(group.loads for group in pipeline.groups)
    return any(0 < there[loads] < count for loads, count in groups.items())


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
    """Yield each group of the old composition with the number of bundles that may still need one of its workers. After
    the drain limit only bundles that have entered a partitioned stage count: they can run nowhere else."""
    ahead = 0
    for group in draining.groups:
        ahead = group.load * group.keyed if draining.migrating else ahead + group.load
        yield group, ahead + group.tested


def _lent(group: GroupState, active: Pipeline) -> WorkerState | None:
    """Return a worker for a group of the old composition. If the group already has one, the first choice is a worker at
    the same stage in the active composition: no item passes there until the old composition has drained."""
    if group.workers:
        others = [each for each in group.pipeline.groups if each is not group]
        near = _borrowed([active.by_stage[group.first]], group, least=1)
        return near or _borrowed(active.groups, group, least=1) or _borrowed(others, group, least=2)
    all_groups = [*active.groups, *group.pipeline.groups]
    return _borrowed(all_groups, group, least=2) or _borrowed(active.groups, group, least=1)


def _borrowed(groups: Sequence[GroupState], to: GroupState, least: int) -> WorkerState | None:
    """Return the least busy worker of the largest group of its class, if that has at least ``least``."""
    fit = (group for group in groups if group.loads == to.loads)
    lender = max(fit, key=lambda group: len(group.workers), default=None)
    if lender is None or len(lender.workers) < least:
        return None
    return min(reversed(lender.workers), key=lambda worker: len(worker.outstanding))
