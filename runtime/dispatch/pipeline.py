"""One composition at work: its groups, their work lists, and the workers bound to them. Plain state, no policy."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from compositions.model import Composition, Group, Stage, StageKind
from profiler.drain_samples import Pending
from runtime.dispatch.bundle import Bundle
from runtime.dispatch.events import WorkerId
from runtime.dispatch.pace import Pace
from runtime.dispatch.roaming import Roaming
from runtime.dispatch.trouble import Trouble

KEYED_DEPTH = 3


@dataclass(slots=True, eq=False)
class TaskInWork:
    """A task that a worker has, and the group whose load it counts in."""

    task_id: int
    bundle: Bundle
    group: GroupState
    with_others: bool
    """The worker had others when it was given."""
    since_s: float | None = None
    """When the worker began it, as far as can be told; None: it waits behind another."""
    picked: bytes | None = None
    """Of a piece of the bundle: a byte for each value, 1 for those of the task."""
    void: bool = False
    """It was sent behind a piece that has failed since, and is not run."""

    @property
    def count(self) -> int:
        """Items; of a piece its share of them, by values."""
        whole, picked = self.bundle.count, self.picked
        return whole if picked is None else max(1, whole * picked.count(1) // len(picked))


@dataclass(slots=True, eq=False)
class WorkerState:
    """A worker as the dispatcher knows it; ``outstanding`` in the order given. ``heard``: it was known to live after so
    many of the run's workers had been lost."""

    worker: WorkerId
    pid: int
    node: str
    idle_since_s: float
    restarts: int = 0
    heard: int = 0
    group: GroupState | None = None
    stays_until_s: float = 0.0
    """It chose its group, and gets more of it until then."""
    outstanding: deque[TaskInWork] = field(default_factory=deque)

    @property
    def running(self) -> list[TaskInWork]:
        """What it runs now: up to the first that is not of a group whose calls wait; nothing runs behind that one."""
        running: list[TaskInWork] = []
        for task in self.outstanding:
            running.append(task)
            if task.group.at_once == 1:
                break
        return running

    @property
    def items(self) -> int:
        return sum(task.bundle.count for task in self.outstanding)


class GroupState:
    """The work list of one group: bundles wait by serial number, oldest first. ``load`` counts those that wait or are
    in work."""

    __slots__ = (
        *("at_once", "depth", "first", "group", "index", "keyed", "last", "leaving", "load", "ordered", "pace"),
        *("pipeline", "waiting", "workers"),
    )

    def __init__(self, pipeline: Pipeline, index: int, group: Group, first: int, stages: Sequence[Stage]) -> None:
        """``first``: index of the group's first stage; ``stages``: of the app."""
        self.pipeline = pipeline
        self.index = index
        self.group = group
        self.first = first
        self.last = first + len(group.stages) - 1
        own = range(first, self.last + 1)
        self.ordered = tuple(index for index in own if stages[index].keeps_state)
        """The indexes of its stages that keep a state."""
        self.keyed = self.ordered == (first,) and stages[first].kind is StageKind.PARTITIONED
        """Its bundles are cut by the keys of its first stage, and it keeps no other state."""
        self.at_once = 1 if self.ordered else max(stages[index].concurrency for index in own)
        """Items that a worker works on at once, where a stage waits."""
        self.waiting: list[tuple[int, Bundle]] = []
        self.workers: list[WorkerState] = []
        self.leaving: list[WorkerState] = []
        """Bound beyond its replicas until their partitions have moved to others, step by step."""
        self.load = 0
        self.pace = Pace()
        self.depth = 0
        """Tasks a worker may have at a time."""

    def put(self, bundle: Bundle) -> None:
        heapq.heappush(self.waiting, (bundle.serial, bundle))

    def pop(self) -> Bundle:
        return heapq.heappop(self.waiting)[1]

    def stages_from(self, index: int) -> tuple[str, ...]:
        """The names of its stages from the app's stage ``index`` on."""
        return self.group.stages[index - self.first :]

    def settle_depth(self) -> None:
        """What is known of its tasks now may say another one. Two tasks hide the hop; where a task takes much longer
        than a hop, a second one would only wait behind it while another worker is idle, and lengthen the drain. A
        stateful stage needs the state that its previous item leaves, so it has one. Where calls wait, it is as many as
        have the items that may be worked on at once. Of a partitioned group it is how many bundles may be there for
        each worker: keys are not even, and who has none in one bundle has some in the next."""
        if self.at_once > 1:
            depth = -(-self.at_once // self.pace.task_items)
        elif self.ordered:
            depth = KEYED_DEPTH if self.keyed else 1
        else:
            busy_s = self.pace.busy_s
            depth = 1 if busy_s is None or busy_s >= self.pipeline.prefetch_below_s else 2
        if depth != self.depth:
            self.depth = depth
            self.pipeline.make_room()

    def pending(self, now_s: float, workers: Collection[WorkerState]) -> tuple[Pending, ...]:
        """All its bundles, in the order in which they are served: those that ``workers``, which may have left it since,
        run, have or will have."""
        running: list[Pending] = []
        behind: list[Pending] = []
        for worker in workers:
            for task in worker.outstanding:
                if task.group is self and task.since_s is not None:
                    running.append(_pending(task.bundle, now_s - task.since_s, task.count))
                elif task.group is self:
                    behind.append(_pending(task.bundle, count=task.count))
        return (*running, *behind, *(_pending(bundle) for _, bundle in sorted(self.waiting)))

    def free_worker(self) -> WorkerState | None:
        """The worker with the fewest tasks, if it may have another."""
        if self.at_once > 1:
            return self._worker_with_room()
        best = None
        fewest = self.depth
        for worker in self.workers:
            tasks = len(worker.outstanding)
            if tasks < fewest:
                best, fewest = worker, tasks
                if tasks == 0:
                    break
        return best

    def _worker_with_room(self) -> WorkerState | None:
        """The worker with the fewest items, if there may be more; suspects and others' tasks are alone."""
        room = 1 if self.waiting and self.waiting[0][1].trouble.suspect else self.at_once
        best = min(filter(_open, self.workers), key=lambda worker: worker.items, default=None)
        return best if best is not None and best.items < room else None


def _open(worker: WorkerState) -> bool:
    return not any(task.group.at_once == 1 or task.bundle.trouble.suspect for task in worker.outstanding)


def _pending(bundle: Bundle, age_s: float | None = None, count: int | None = None) -> Pending:
    return Pending(age_s, bundle.size_bytes // bundle.count, count or bundle.count)


class Pipeline:
    """A composition with its groups. ``in_flight`` bundles have started in it and are not out of it."""

    def __init__(self, composition: Composition, stages: tuple[Stage, ...], prefetch_below_s: float) -> None:
        """``prefetch_below_s``: mean time of a task below which a worker gets a second one."""
        self.composition = composition
        self.prefetch_below_s = prefetch_below_s
        self.in_flight = 0
        self.migrating = False
        self.groups: list[GroupState] = []
        self.by_stage: list[GroupState] = []
        dyn = composition.dyn
        self.roaming = None if dyn is None else Roaming(dyn, len(composition.groups))
        """Where its workers choose what to run next."""
        for index, group in enumerate(composition.groups):
            state = GroupState(self, index, group, len(self.by_stage), stages)
            self.groups.append(state)
            self.by_stage.extend([state] * len(group.stages))
        self.room = 0
        """Bundles that may be in flight."""
        for state in self.groups:
            state.settle_depth()

    def resize(self, groups: Sequence[Group]) -> None:
        """Each group has the number of replicas of its counterpart in ``groups`` from now on."""
        for state, group in zip(self.groups, groups, strict=True):
            state.group = group
        self.make_room()

    def inherit_busy(self, old: Pipeline) -> None:
        """The same stages ran in ``old``: what is known of their times holds for this pipeline."""
        for group in self.groups:
            group.pace.busy_s = old.known_busy_s(group.first, group.last)
            group.settle_depth()

    def known_busy_s(self, first: int, last: int) -> float | None:
        """Time of the stages ``first`` to ``last``; a merged group's time is shared out evenly among its stages."""
        total_s = 0.0
        for state in self.by_stage[first : last + 1]:
            if (busy_s := state.pace.busy_s) is None:
                return None
            total_s += busy_s / len(state.group.stages)
        return total_s

    def make_room(self) -> None:
        """As many bundles may be in flight as the workers hold, and one waiting at each group (buffers of size 1 in
        Vogel et al., section 4.1). More would not raise the throughput and would lengthen the drain."""
        if self.roaming is not None:
            held = self.composition.workers * max(state.depth for state in self.groups)
        else:
            held = sum(state.group.replicas * state.depth for state in self.groups)
        self.room = held + len(self.groups)

    def pending(
        self, stages: tuple[Stage, ...], now_s: float, workers: Collection[WorkerState]
    ) -> dict[str, tuple[Pending, ...]]:
        """The in-flight bundles of each group, by the first stage of the group; ``workers``: all there are."""
        return {stages[state.first].name: items for state in self.groups if (items := state.pending(now_s, workers))}


PARTS: tuple[type, ...] = (Bundle, GroupState, Pace, Pipeline, TaskInWork, Trouble, WorkerState)
"""What its state is made of."""
