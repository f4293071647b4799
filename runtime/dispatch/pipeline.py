"""A running composition: its groups, their queues, and the workers bound to them. Plain state, no policy."""

from __future__ import annotations

import heapq
import math
from bisect import insort
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from compositions.model import Composition, Group, Loads, Stage, StageKind, loads_of
from profiler.drain_samples import Pending
from runtime.dispatch.bundle import Bundle
from runtime.dispatch.dynamic import Roaming
from runtime.dispatch.events import WorkerId


@dataclass(slots=True, eq=False)
class Pace:
    busy_s: float | None = None
    """Moving average of the time of a task, gain 1/8; None before the first task."""
    task_items: int = 1
    """Number of items of the latest task."""
    depth: int = 0
    """Maximum number of tasks that a worker may have at a time."""
    turn: int = 0
    """Number of tasks sent so far; round-robin dispatch derives the next worker from it."""
    spread: float = 1.0
    """Variance of the logarithm of an item's time about its worker's mean, gain 1/64; 1.6 for exponential times."""
    fast_s: float | None = None
    """Time of an item at the fastest workers, hops included; None: all workers are about equally fast."""
    until_look: int = 0
    """Number of tasks until the next search for slow workers."""
    behind_since_s: float | None = None
    """Time since which bundles have waited for a fast worker; None: no bundle waits for one."""

    def note(self, busy_s: float, items: int) -> None:
        """Record a task of ``items`` items that took ``busy_s``."""
        self.task_items = items
        self.busy_s = busy_s if self.busy_s is None else self.busy_s + (busy_s - self.busy_s) / 8


KEYED_DEPTH = 3
_SLOW = 2.0
"""A worker is slow if an item takes this many times as long as at the fastest workers of its group, and the difference
exceeds two standard errors of its mean. With exponential times, chance makes 1.4 % of two equal workers slow and 5 % of
six; the wait for a fast worker is then no longer than the time that the slow one would lose."""
_TIMED, _KNOWN = 32, 8
"""Maximum number of tasks in a worker's mean time; minimum number before other workers are compared with it."""
_ODD = 3.0
"""Two tasks in a row that deviate from the worker's mean by this many standard deviations start a new mean."""


@dataclass(slots=True, eq=False)
class TaskInWork:
    """A task that a worker has, and the group whose load includes it."""

    task_id: int
    bundle: Bundle
    group: GroupState
    with_others: bool
    """True if the worker had other tasks when this one was sent."""
    since_s: float | None = None
    """Estimated start time in the worker; None: the task waits behind another."""
    picked: bytes | None = None
    """For a piece of a bundle: a byte for each value of the bundle, 1 if the task runs it. None: the whole bundle."""
    void: bool = False
    """True if the worker will not run the task: it was sent behind a piece that has failed since."""

    @property
    def count(self) -> int:
        """Number of items; for a piece, the items in proportion to its values."""
        whole, picked = self.bundle.count, self.picked
        return whole if picked is None else max(1, whole * picked.count(1) // len(picked))

    @property
    def values(self) -> int:
        """Number of values that the first stage of the task receives."""
        return self.bundle.values if self.picked is None else self.picked.count(1)

    def made(self, said: int | None) -> int:
        """Return the number of result values, ``said`` by the worker; if None, one for each item."""
        return said if said is not None else self.values if self.picked is not None else self.bundle.count


@dataclass(slots=True, eq=False)
class WorkerState:
    """A worker as the dispatcher knows it; ``outstanding`` is in the order of sending. ``heard``: the number of workers
    that the run had lost when this one was last known to be alive."""

    worker: WorkerId
    pid: int
    node: str
    idle_since_s: float
    loads: Loads = ()
    """The worker's class: it serves groups with the same ``loads``."""
    restarts: int = 0
    heard: int = 0
    group: GroupState | None = None
    leaves: bool = False
    """True if another worker replaces this one as soon as possible; after that it gets no more tasks."""
    stays_until_s: float = 0.0
    """With dynamic scheduling: the time until which the worker gets more tasks of its group."""
    outstanding: deque[TaskInWork] = field(default_factory=deque)
    item_s: float = 0.0
    """Geometric mean of an item's time in its group, hops included: a few long ones hardly move it."""
    timed: int = 0
    """Number of tasks in this mean, at most ``_TIMED``."""
    odd: bool = False
    """True if the latest task took much more or less than the mean."""

    def note(self, item_s: float, pace: Pace) -> None:
        """Record a finished task of the worker's group, with ``item_s`` for each item."""
        if self.timed == 0:
            self.item_s, self.timed, self.odd = item_s, 1, False
            return
        off, usual = math.log(item_s / self.item_s), max(math.log(_SLOW), _ODD * math.sqrt(pace.spread))
        pace.spread += (min(abs(off), usual) ** 2 - pace.spread) / 64
        if abs(off) > usual and self.odd:
            self.item_s, self.timed, self.odd = item_s, 2, False
        else:
            self.timed, self.odd = min(self.timed + 1, _TIMED), abs(off) > usual
            self.item_s *= math.exp(off / self.timed)

    @property
    def running(self) -> list[TaskInWork]:
        """The tasks that run now: up to the first of a group without concurrent calls; the tasks behind it wait."""
        running: list[TaskInWork] = []
        for task in self.outstanding:
            running.append(task)
            if task.group.at_once == 1:
                break
        return running

    @property
    def tests(self) -> bool:
        """True if the worker runs a suspect: a bundle with which a worker died."""
        return any(task.bundle.trouble.deaths for task in self.outstanding if task.picked is None)

    def may_test(self, group: GroupState) -> bool:
        """Return whether the worker may run a suspect, alone: it has at most one task before it."""
        if not self.outstanding or group.at_once > 1:
            return not self.outstanding
        return len(self.outstanding) == 1 and self.outstanding[0].group.at_once == 1

    @property
    def items(self) -> int:
        return sum(task.bundle.count for task in self.outstanding)


class GroupState:
    """The queue of one group, by serial number. ``load`` counts the bundles that wait or are in work."""

    __slots__ = (
        *("apart", "at_once", "first", "group", "index", "keyed", "last", "leaving", "load"),
        *("ordered", "pace", "pipeline", "waiting", "workers"),
    )

    def __init__(self, pipeline: Pipeline, index: int, group: Group, first: int, stages: Sequence[Stage]) -> None:
        """Create an empty queue. ``first``: index of the group's first stage; ``stages``: all stages of the app."""
        self.pipeline = pipeline
        self.index = index
        self.group = group
        self.first = first
        self.last = first + len(group.stages) - 1
        own = range(first, self.last + 1)
        self.ordered = tuple(index for index in own if stages[index].keeps_state)
        """The indexes of the group's stages that keep a state."""
        self.keyed = self.ordered == (first,) and stages[first].kind is StageKind.PARTITIONED
        """True if only its first stage keeps a state and is partitioned: bundles are split by the stage's keys."""
        self.at_once = 1 if self.ordered else max(stages[index].concurrency for index in own)
        """Maximum number of items that a worker processes concurrently."""
        self.waiting: list[tuple[int, Bundle]] = []
        self.apart: list[Bundle] = []
        """Waiting bundles with which a worker died, by serial number."""
        self.workers: list[WorkerState] = []
        self.leaving: list[WorkerState] = []
        """Surplus workers that stay bound until their partitions have moved to others, step by step."""
        self.load = 0
        self.pace = Pace()

    def put(self, bundle: Bundle) -> None:
        if bundle.trouble.deaths and not (self.keyed and bundle.next_stage == self.first):
            insort(self.apart, bundle, key=lambda each: each.serial)
        else:
            heapq.heappush(self.waiting, (bundle.serial, bundle))

    def pop(self) -> Bundle:
        return heapq.heappop(self.waiting)[1]

    @property
    def tested(self) -> bool:
        return self in self.pipeline.tested

    @property
    def loads(self) -> Loads:
        """The class of the group's workers."""
        return self.pipeline.loads[self.index]

    @property
    def listed(self) -> list[Bundle]:
        """All waiting bundles, in the order in which they are served."""
        return [*self.apart, *(bundle for _, bundle in sorted(self.waiting))]

    def empty(self) -> list[Bundle]:
        """Remove all waiting bundles from the queue and the load, and return them."""
        bundles, self.apart, self.waiting = self.listed, [], []
        self.load -= len(bundles)
        return bundles

    def acquit(self, node: str, since: int) -> list[Bundle]:
        """Remove and return the suspects of losses on ``node`` after loss ``since``: the machine was at fault."""
        freed = [each for each in self.apart if each.trouble.node == node and each.trouble.lost_as > since]
        for bundle in freed:
            self.apart.remove(bundle)
            bundle.trouble = bundle.trouble.acquitted()
        self.load -= len(freed)
        return freed

    def stages_from(self, index: int) -> tuple[str, ...]:
        """Return the names of the group's stages from the app's stage ``index`` on."""
        return self.group.stages[index - self.first :]

    def settle_depth(self) -> None:
        """Update the depth, the maximum number of tasks per worker. Two tasks hide the hop. If a task takes much longer
        than a hop, a second one would only wait and lengthen the drain. A stateful stage needs the state after its
        previous item, so its depth is 1. With concurrent calls, the tasks hold as many items as may run at once. For
        a partitioned group, whose keys are uneven, the depth is the number of bundles per worker."""
        if self.at_once > 1:
            depth = -(-self.at_once // self.pace.task_items)
        elif self.ordered:
            depth = KEYED_DEPTH if self.keyed else 1
        else:
            busy_s = self.pace.busy_s
            depth = 1 if busy_s is None or busy_s >= self.pipeline.prefetch_below_s else 2
        if depth != self.pace.depth:
            self.pace.depth = depth
            self.pipeline.make_room()

    def pending(self, now_s: float, workers: Collection[WorkerState]) -> tuple[Pending, ...]:
        """Return the group's bundles in the order of service. ``workers``: all, as one may have left the group."""
        running: list[Pending] = []
        behind: list[Pending] = []
        for worker in workers:
            for task in worker.outstanding:
                if task.group is self and task.since_s is not None:
                    running.append(_pending(task.bundle, now_s - task.since_s, task.count))
                elif task.group is self:
                    behind.append(_pending(task.bundle, count=task.count))
        return (*running, *behind, *map(_pending, self.listed))

    def free_worker(self) -> WorkerState | None:
        """Return the worker with the fewest tasks, or with round-robin the next one, if it may have another task."""
        if self.at_once > 1:
            return self._worker_with_room()
        if self.pipeline.round_robin and self.workers:
            next_one = self.workers[self.pace.turn % len(self.workers)]
            return next_one if len(next_one.outstanding) < self.pace.depth else None
        best = None
        fewest = self.pace.depth
        for worker in self.workers:
            tasks = len(worker.outstanding)
            if tasks < fewest:
                best, fewest = worker, tasks
                if tasks == 0:
                    break
        return best

    def timed(self, worker: WorkerState, busy_s: float, items: int, item_s: float) -> None:
        """Record a task of ``items`` items; each took ``item_s``, hops included."""
        self.pace.note(busy_s, items)
        if worker.group is not self or item_s <= 0:
            return
        worker.note(item_s, self.pace)
        self.pace.until_look -= 1
        if self.pace.until_look <= 0:
            self.pace.until_look = max(16, len(self.workers))
            known = sorted(each.item_s for each in self.workers if each.timed >= _KNOWN)
            self.pace.fast_s = known[len(known) // 8] if known else None  # of many, the fastest is so by chance
            if not any(map(self.slow, self.workers)):
                self.pace.fast_s = None

    def slow(self, worker: WorkerState) -> bool:
        """Return whether other workers of the group take less than half the time of ``worker``."""
        fast_s = self.pace.fast_s
        if fast_s is None or worker.timed == 0 or worker.item_s <= _SLOW * fast_s:
            return False
        return math.log(worker.item_s / fast_s) ** 2 * worker.timed > 4 * self.pace.spread

    def preferred(self, worker: WorkerState, now_s: float) -> WorkerState | None:
        """Return the worker for the next bundle: ``worker``, which has room, unless it is slow; then a fast one. None:
        wait for a fast one. The slow one gets the bundle after a wait longer than the time it would lose (Lin & Kumar
        1984: the best use of a slow server begins at a threshold)."""
        pace = self.pace
        if pace.fast_s is None or self.at_once > 1 or self.pipeline.round_robin or not self.slow(worker):
            return worker
        lost_s = worker.item_s - pace.fast_s
        worker.item_s -= lost_s / 512  # so that the slow worker is tried again from time to time
        fast = (each for each in self.workers if not self.slow(each))
        least = min(fast, key=lambda each: len(each.outstanding), default=None)
        if least is None:  # the fast workers have left
            pace.fast_s = None
            return worker
        if len(least.outstanding) < pace.depth:
            return least
        if pace.behind_since_s is None:
            pace.behind_since_s = now_s
        return worker if now_s - pace.behind_since_s > lost_s else None

    def _worker_with_room(self) -> WorkerState | None:
        """Return the worker with the fewest items, if it may have more. Workers with a suspect or a non-concurrent task
        are left out. If a suspect waits, the least busy of several workers gets no more, so that it becomes free."""
        found = sorted(filter(_open, self.workers), key=lambda worker: worker.items)[:2]
        if not found:
            return None
        best = found[-1] if self.apart else found[0]
        return best if best.items < self.at_once else None


def _open(worker: WorkerState) -> bool:
    return not any(task.group.at_once == 1 or task.bundle.trouble.deaths for task in worker.outstanding)


def _pending(bundle: Bundle, age_s: float | None = None, count: int | None = None) -> Pending:
    return Pending(age_s, bundle.size_bytes // bundle.count, count or bundle.count)


class Pipeline:
    """A composition with its groups. ``in_flight``: the number of bundles that have started in it and not left it."""

    def __init__(
        self, composition: Composition, stages: tuple[Stage, ...], prefetch_below_s: float, round_robin: bool = False
    ) -> None:
        """Create the groups. ``prefetch_below_s``: mean time of a task below which a worker gets a second one.
        ``round_robin``: the workers of a group get its tasks in turn."""
        self.composition = composition
        self.prefetch_below_s = prefetch_below_s
        self.round_robin = round_robin and composition.dyn is None
        self.in_flight = 0
        self.migrating = False
        self.tested: set[GroupState] = set()
        """Partitioned groups with values that two workers died with. Each gets one more worker, because such values
        must not run in a group's last worker."""
        self.groups: list[GroupState] = []
        self.by_stage: list[GroupState] = []
        dyn = composition.dyn
        self.roaming = None if dyn is None else Roaming(dyn, len(composition.groups))
        """For a dynamic composition: the scheduler that chooses the group an idle worker goes to; otherwise None."""
        own = [[stage for stage in stages if stage.name in group.stages] for group in composition.groups]
        self.loads = [loads_of(each if dyn is None else stages) for each in own]
        """The class of the workers of each group."""
        for index, group in enumerate(composition.groups):
            state = GroupState(self, index, group, len(self.by_stage), stages)
            self.groups.append(state)
            self.by_stage.extend([state] * len(group.stages))
        self.room = 0
        """Maximum number of bundles in flight."""
        for state in self.groups:
            state.settle_depth()

    def resize(self, groups: Sequence[Group]) -> None:
        """Give each group the number of replicas of its counterpart in ``groups``."""
        for state, group in zip(self.groups, groups, strict=True):
            state.group = group
        self.make_room()

    def inherit_busy(self, old: Pipeline) -> None:
        """Copy the measured task times of the same stages from ``old``."""
        for group in self.groups:
            group.pace.busy_s = old.known_busy_s(group.first, group.last)
            group.settle_depth()

    def known_busy_s(self, first: int, last: int) -> float | None:
        """Return the time of stages ``first`` to ``last``; None if unknown. A merged group's stages count equally."""
        total_s = 0.0
        for state in self.by_stage[first : last + 1]:
            if (busy_s := state.pace.busy_s) is None:
                return None
            total_s += busy_s / len(state.group.stages)
        return total_s

    def make_room(self) -> None:
        """Set ``room`` to the bundles that the workers hold, plus one waiting at each group (buffers of size 1 in Vogel
        et al., section 4.1). More would lengthen the drain without raising the throughput."""
        if self.roaming is not None:
            held = self.composition.workers * max(state.pace.depth for state in self.groups)
        else:
            held = sum(state.group.replicas * state.pace.depth for state in self.groups)
        self.room = held + len(self.groups)

    def pending(
        self, stages: tuple[Stage, ...], now_s: float, workers: Collection[WorkerState]
    ) -> dict[str, tuple[Pending, ...]]:
        """Return the in-flight bundles of each group, by the name of its first stage. ``workers``: all of the app."""
        return {stages[state.first].name: items for state in self.groups if (items := state.pending(now_s, workers))}
