"""The dispatcher's state between events. The handlers that change it keep no state of their own."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass

from compositions.model import Composition, Loads, Stage
from runtime.dispatch.bundle import NO_TROUBLE, Bundle, Trouble
from runtime.dispatch.checkpoint import BEGINNING, Checkpoint
from runtime.dispatch.crew import Crew
from runtime.dispatch.events import BundleAdmitted
from runtime.dispatch.keyed.stateful import StatefulStages
from runtime.dispatch.outbox import Outbox
from runtime.dispatch.phases import Awaiting, Draining, Phase, Preparing
from runtime.dispatch.pipeline import GroupState, Pipeline, TaskInWork, WorkerState
from runtime.dispatch.settings import DispatcherSettings


class TaskBook:
    """Numbers tasks, and lists unfinished ones with their workers in the order of sending."""

    def __init__(self) -> None:
        self.given = 0
        """Number of tasks so far, which is also the next task's id."""

    def give(
        self, worker: WorkerState, group: GroupState, bundle: Bundle, now_s: float, picked: bytes | None = None
    ) -> int:
        """Record a new task of a worker, and return its id. ``picked``: the values of a piece; None: all."""
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
        """Return the task that a worker has finished, and its start time. None if the worker is no longer registered,
        or the task runs elsewhere by now."""
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
        if task.group.at_once == 1:  # no task behind this one has begun
            return None
    return None


def _note_begun(worker: WorkerState, now_s: float) -> None:
    for task in worker.outstanding:
        if task.since_s is None:
            task.since_s = now_s
        if task.group.at_once == 1:  # the same rule as in ``WorkerState.running``, without building a list
            return


# Admission: items get their serial numbers and wait to be started; the overload policy applies when too many wait.


class Admission:
    """The queue before the first group. ``accepted``: items so far and next serial number; ``queued``: waiting."""

    def __init__(self, settings: DispatcherSettings, accepted: int = 0) -> None:
        self.queue: deque[Bundle] = deque()
        self.accepted = accepted
        self.queued = self.queued_bytes = 0
        self.refused = 0
        """Number of bundles in the queue that the app has refused; no worker gets them."""
        self._buffer_items, self._buffer_bytes = settings.buffer_items, settings.buffer_bytes
        self.sheds = settings.overload == "shed"

    @property
    def has_room(self) -> bool:
        """True if another bundle may be queued; always if overload sheds the oldest items."""
        return self.sheds or (self.queued < self._buffer_items and self.queued_bytes < self._buffer_bytes)

    def take(self, event: BundleAdmitted, size_bytes: int) -> list[Bundle]:
        """Queue the items under the next serial numbers; return the items to shed for them, the oldest first."""
        _, arrived_s, payload, due_s, routes, error = event
        trouble = NO_TROUBLE if error is None else Trouble(refused=error)
        bundle = Bundle(
            self.accepted, arrived_s, payload, size_bytes=size_bytes, due_s=due_s, routes=routes, trouble=trouble
        )
        self.queue.append(bundle)
        if error is not None:  # a refused bundle has one item
            self.refused += 1
        self.accepted += bundle.count
        self._count(bundle, 1)
        return self._too_many() if self.sheds else []

    def start(self) -> Bundle:
        """Remove and return the oldest bundle of the queue."""
        bundle = self.queue.popleft()
        self._count(bundle, -1)
        if bundle.error is not None:
            self.refused -= 1
        return bundle

    def _too_many(self) -> list[Bundle]:
        going = []
        while (excess := self.queued - self._buffer_items) > 0:
            going.append(self._oldest(excess))
        while self.queued_bytes > self._buffer_bytes and self.queued > 1:
            going.append(self._oldest(1))
        return going

    def _oldest(self, most: int) -> Bundle:
        """Remove the oldest bundle from the queue, and return up to ``most`` items of it; the rest stays queued."""
        bundle = self.start()
        if bundle.count <= most:
            return bundle
        rest = bundle.part(most, bundle.count)
        self.queue.appendleft(rest)
        self._count(rest, 1)
        self.refused += rest.error is not None
        return bundle.part(0, most)

    def _count(self, bundle: Bundle, sign: int) -> None:
        self.queued += sign * bundle.count
        self.queued_bytes += sign * bundle.size_bytes


class Course:
    """The active pipeline, and the ``phase`` of the switch under way (None without a switch)."""

    def __init__(self, stages: Sequence[Stage], composition: Composition, settings: DispatcherSettings) -> None:
        self.stages = tuple(stages)
        self._round_robin = settings.scheduling == "round-robin"
        self.active = Pipeline(composition, self.stages, settings.prefetch_below_s, self._round_robin)
        self.phase: Phase | None = None

    @property
    def draining(self) -> Pipeline | None:
        return self.phase.pipeline if isinstance(self.phase, Draining) else None

    @property
    def pipelines(self) -> tuple[Pipeline, ...]:
        """All pipelines that have items, the oldest first."""
        phase = self.phase
        return (phase.pipeline, self.active) if isinstance(phase, Draining) else (self.active,)

    @property
    def workers_wanted(self) -> Counter[Loads]:
        """Number of workers of each class that the active composition needs, or, if more, one that waits or drains."""
        phase, wanted = self.phase, self.active.composition.crew(self.stages)
        if phase is None:
            return wanted
        other = phase.request if isinstance(phase, Awaiting) else phase.pipeline
        return wanted | other.composition.crew(self.stages)

    def may_feed(self, now_s: float) -> bool:
        """Return whether the active pipeline may take new items now."""
        phase = self.phase
        return phase is None or phase.may_feed(now_s)

    def disturb(self, pipeline: Pipeline) -> None:
        """Mark the drain of ``pipeline``, if it drains, as unusual: its duration must not be learned from."""
        if isinstance(self.phase, Draining) and self.phase.pipeline is pipeline:
            self.phase.disturbed = True

    def hand_over(self, phase: Preparing, now_s: float, drain_limit_s: float) -> None:
        """Make the prepared composition the active one; the old one drains."""
        old = self.active
        self.active = Pipeline(phase.request.composition, self.stages, old.prefetch_below_s, self._round_robin)
        self.active.inherit_busy(old)
        self.phase = Draining.begin(phase.request, old, now_s, drain_limit_s)

    def migrate(self, bundle: Bundle) -> Pipeline:
        """Move a bundle from the draining pipeline to the active one, and return that."""
        assert isinstance(self.phase, Draining), "items are migrated during a drain"
        self.phase.pipeline.in_flight -= 1
        self.active.in_flight += 1
        self.phase.migrated += bundle.count
        bundle.composition = self.active.composition.name
        return self.active


@dataclass(frozen=True, slots=True)
class State:
    """The whole state. An accepted item is in exactly one place: the admission queue, a group's queue, a worker's task
    or the outbox; or it has left. All counts follow from these places (``lab.simulation.invariants``)."""

    admission: Admission
    course: Course
    crew: Crew
    tasks: TaskBook
    stateful: StatefulStages
    outbox: Outbox

    @staticmethod
    def initial(
        stages: Sequence[Stage], composition: Composition, settings: DispatcherSettings, begun: Checkpoint | None = None
    ) -> State:
        begin = begun or BEGINNING
        admission = Admission(settings, begin.next_serial)
        course = Course(stages, composition, settings)
        outbox = Outbox(begin, by_bundle=begun is not None and any(stage.keeps_state for stage in stages))
        return State(admission, course, Crew(), TaskBook(), StatefulStages(stages, begun), outbox)
