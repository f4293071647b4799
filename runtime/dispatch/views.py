"""Views of the dispatcher's state, for status and the drain estimate."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from compositions.model import Composition
from profiler.drain_samples import Pending
from runtime.dispatch.events import WorkerId
from runtime.dispatch.phases import Awaiting
from runtime.dispatch.pipeline import GroupState, Pipeline, WorkerState
from runtime.dispatch.state import State


@dataclass(frozen=True, slots=True)
class WorkerView:
    worker: WorkerId
    pid: int
    node: str
    group: int | None
    """Index of the worker's group in the active composition; None for a worker without one."""
    outstanding: int
    """Number of its unfinished tasks."""
    restarts: int
    """Number of lost workers, one after the other, that this worker replaces."""


@dataclass(frozen=True, slots=True)
class DispatcherView:
    composition: Composition
    switching: bool
    queued: int
    """Admitted items that no worker has started."""
    in_flight: int
    """Started items whose results are not back."""
    positions: Mapping[str, int]
    """Number of in-flight items at each group of the active composition, by the group's first stage."""
    pending: Mapping[str, tuple[Pending, ...]]
    """The in-flight bundles of the active composition, by the group's first stage."""
    accepted: int
    delivered: int
    failed: int
    shed: int
    restarts: int
    """Workers started in place of lost ones."""
    workers: tuple[WorkerView, ...]
    queued_bytes: int = 0
    started_bytes: int = 0
    """Payload bytes of items that were started and have not left."""
    item_bytes: float = 0.0
    """Moving mean of an item's maximum size between its start and its end; 0 before the first item has ended."""
    preparing: bool = False
    """True if the switch under way waits for workers and can be cancelled."""
    full: bool = False
    """True if the queue is full: no further item is accepted."""
    short_of_workers: bool = False
    """True if workers alternate between groups: there are too few of them, or the composition is dynamic."""
    unserved: tuple[str, ...] = ()
    """The groups of the active composition whose stages no present worker has loaded."""


def view_of(state: State, now_s: float) -> DispatcherView:
    """Return a view of the state at ``now_s``, which is not before the last event."""
    course, outbox = state.course, state.outbox
    active, items = course.active, _items(state)
    loaded = {worker.loads for worker in state.crew.workers.values()}
    groups = zip(active.composition.groups, active.groups, strict=True)
    return DispatcherView(
        composition=active.composition,
        switching=course.phase is not None,
        queued=state.admission.queued,
        in_flight=items.total(),
        positions={course.stages[group.first].name: items[group] for group in active.groups if items[group]},
        pending=active.pending(course.stages, now_s, state.crew.workers.values()),
        accepted=state.admission.accepted,
        delivered=outbox.delivered,
        failed=outbox.failed,
        shed=outbox.shed,
        restarts=state.crew.restarts,
        workers=tuple(_worker(worker, active) for worker in state.crew.workers.values()),
        queued_bytes=state.admission.queued_bytes,
        started_bytes=outbox.started.used,
        item_bytes=outbox.started.each_bytes,
        preparing=isinstance(course.phase, Awaiting),
        full=not state.admission.has_room,
        short_of_workers=state.crew.short,
        unserved=tuple("+".join(group.stages) for group, bound in groups if bound.loads not in loaded),
    )


def _items(state: State) -> Counter[GroupState]:
    """Return how many items wait at each group, or are in work for it."""
    items = Counter[GroupState]()
    for pipeline in state.course.pipelines:
        for group in pipeline.groups:
            items[group] += sum(bundle.count for bundle in group.listed)
    for worker in state.crew.workers.values():
        for task in worker.outstanding:
            if task.picked is None:
                items[task.group] += task.bundle.count
    for keys in state.stateful.partitioned.values():
        if keys.group is not None:
            items[keys.group] += sum(assembly.bundle.count for assembly in keys.entered)
    return items


def _worker(worker: WorkerState, active: Pipeline) -> WorkerView:
    bound = worker.group if worker.group and worker.group.pipeline is active else None
    index = bound.index if bound else None
    return WorkerView(worker.worker, worker.pid, worker.node, index, len(worker.outstanding), worker.restarts)
