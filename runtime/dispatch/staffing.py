"""Staffing: compute the desired number of workers, and place free workers where work waits."""

from collections import Counter
from collections.abc import Iterable
from functools import partial

from compositions.model import Loads
from runtime.dispatch.dynamic import Roaming
from runtime.dispatch.events import WorkerJoined, WorkerLeaving
from runtime.dispatch.instructions import StartWorkers, StopWorker
from runtime.dispatch.outcomes import Turn, WorkersChanged
from runtime.dispatch.pipeline import GroupState, Pipeline, WorkerState
from runtime.dispatch.settings import DispatcherSettings
from runtime.dispatch.state import State
from runtime.dispatch.work import Work
from runtime.scheduling.port import Queue

LEAVES_AFTER_S = 1.0
"""Idle time after which a leaving worker is released; its remaining partitions move when a value needs them."""


class Staffing:
    def __init__(self, state: State, turn: Turn, settings: DispatcherSettings, work: Work) -> None:
        self._crew = state.crew
        self._course = state.course
        self._stateful = state.stateful
        self._turn = turn
        self._admission = state.admission
        self._settings = settings
        self._work = work

    def joined(self, event: WorkerJoined) -> None:
        """Register a worker that joined; ``assign`` binds it to a group."""
        self._crew.join(event)
        self._turn.outcomes.append(WorkersChanged(event.at_s, joined=(event.worker,)))

    def leaving(self, event: WorkerLeaving) -> None:
        """Start another worker elsewhere, and release this one when the other has joined."""
        if event.reason:
            self._turn.outcomes.append(WorkersChanged(event.at_s, leaving=(event.worker,), reason=event.reason))
        if (worker := self._crew.workers.get(event.worker)) is not None:
            worker.leaves = True
            self.start_missing()
            self.assign()

    def start_missing(self) -> None:
        """Start missing workers: first one of each class that has none, in case there is no room for all."""
        there = self._crew.staying()
        missing = self._crew.start_missing(self._wanted, self._turn.now_s)
        first = {loads: 1 for loads in missing if len(missing) > 1 and not there[loads]}
        rest = {loads: more for loads, count in missing.items() if (more := count - first.get(loads, 0))}
        self._turn.instructions += [StartWorkers(*each[::-1]) for each in (*first.items(), *rest.items())]

    def stop_surplus(self) -> None:
        """Stop surplus workers that have been idle for long, and leaving workers that are no longer needed."""
        idle_before_s = self._turn.now_s - self._settings.idle_worker_s
        for worker in self._crew.remove_surplus(self._wanted, idle_before_s):
            self._stateful.lose(worker)
            self._turn.instructions.append(StopWorker(worker))

    def free_left(self) -> None:
        """Release surplus workers. One that leaves a partitioned group is released once its states have moved, or if no
        value of its keys came for ``LEAVES_AFTER_S``."""
        self._crew.release_surplus(self._course.active)
        if self._crew.free_left(self._course.active, self._has_left):
            self.assign()

    def _has_left(self, group: GroupState, worker: WorkerState) -> bool:
        idle = not worker.outstanding and worker.idle_since_s < self._turn.now_s - LEAVES_AFTER_S
        return idle or not self._stateful.partitioned[group.first].needs(worker.worker)

    def assign(self) -> None:
        """Bind free workers to groups and send them tasks."""
        self._work.dispatch_apart()
        for group in self._crew.assign(self._course.draining, self._course.active):
            self._work.dispatch(group)
        self._work.dispatch_apart()

    def share(self) -> None:
        """If workers are short, bind idle ones to groups where an item waits and no worker is. The old composition's
        groups come first, and later groups before earlier ones, as finishing items frees room. With dynamic scheduling,
        the scheduler places the rest."""
        active = self._course.active
        bound = [each for each in self._course.pipelines if each is not active or each.roaming is None]
        groups = [group for pipeline in bound for group in reversed(pipeline.groups)]
        idle = self._crew.idle()
        if active.roaming is not None:  # unbind idle workers: with dynamic scheduling a bound worker is at work
            for worker in [each for each in idle if each.group is not None and each.group.pipeline is active]:
                self._crew.unbind(worker)
        self._work.dispatch_apart()
        idle = [worker for worker in idle if not worker.tests]
        left = [worker for worker in idle if not self._placed(worker, groups)]
        if active.roaming is not None:
            self._roam_all(left, active, active.roaming)

    def _placed(self, worker: WorkerState, groups: Iterable[GroupState]) -> bool:
        for group in groups:
            near = group is worker.group or (not group.workers and group.loads == worker.loads)
            if near and self._work.waits_for_worker(group):
                self._crew.bind(worker, group)
                self._work.dispatch(group)
                return True
        return False

    def _roam_all(self, left: list[WorkerState], active: Pipeline, roaming: Roaming) -> None:
        """Let the scheduler place the workers in ``left``; those beyond the composition's number stay spares."""
        left = [worker for worker in left if worker.loads == active.groups[0].loads]
        at_work = sum(len(group.workers) for group in active.groups)
        while left and at_work < active.composition.workers:
            queues = [self._queue(group) for group in active.groups]
            first = roaming.choose(self._turn.now_s, queues)
            if first is None:
                return
            worker = max(left, key=partial(self._nearness, active.groups[first], active))
            left.remove(worker)
            self._roam(worker, first, queues, active, roaming)
            at_work += worker.group is not None

    def _nearness(self, group: GroupState, active: Pipeline, worker: WorkerState) -> int:
        """Return a rank: the number of the group's partitions that the worker holds. For an unpartitioned group, any
        idle worker will do, so workers without partitions of other groups come first."""
        held = {
            each: self._stateful.partitioned[each.first].holders.count(worker.worker)
            for each in active.groups
            if each.keyed
        }
        return held[group] if group in held else -sum(held.values())

    def _roam(
        self, worker: WorkerState, at: int | None, queues: list[Queue], active: Pipeline, roaming: Roaming
    ) -> None:
        """Bind the worker to group ``at``, or else to the next groups that the scheduler chooses, until one has a task
        for it. In a partitioned group, all waiting values may belong to other workers."""
        while at is not None:
            self._crew.bind(worker, active.groups[at])
            worker.stays_until_s = self._turn.now_s + roaming.slice_s
            self._work.dispatch(active.groups[at])
            if worker.outstanding:
                return
            self._crew.unbind(worker)
            queues[at] = queues[at]._replace(ready=False)
            at = roaming.choose(self._turn.now_s, queues)

    def _queue(self, group: GroupState) -> Queue:
        """Return the scheduler's view of a group: the values that no worker has (the paper's worklist)."""
        waiting = sum(bundle.values for _, bundle in group.waiting)
        if group.keyed and (keys := self._stateful.partitioned[group.first]).group is group:
            waiting += sum(assembly.left for assembly in keys.entered)
        if not group.index:
            waiting += self._admission.queued
        return Queue(waiting, self._work.waits_for_worker(group), len(group.workers), group.group.replicas)

    @property
    def _wanted(self) -> Counter[Loads]:
        """Number of workers of each class that the groups need, plus one for a group with a suspect, which must not run
        in its last worker. Spares exist only of the class that loads nothing, as they must be cheap."""
        groups = [group for pipeline in self._course.pipelines for group in pipeline.groups]
        extra = Counter({group.loads: 1 for group in groups if group.apart or group.tested})
        wanted = self._course.workers_wanted
        if () in wanted:
            extra |= Counter({(): self._settings.spares})
        return wanted + extra
