"""Invariants of the dispatcher between any two events, and a dispatcher that checks them after each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import reduce
from itertools import combinations
from operator import or_

from runtime.dispatch.bundle import Bundle
from runtime.dispatch.dispatcher import Dispatcher
from runtime.dispatch.event_log import DispatcherError
from runtime.dispatch.events import Event, SizeOf
from runtime.dispatch.instructions import Instruction
from runtime.dispatch.keyed.split import marked
from runtime.dispatch.outcomes import Outcome
from runtime.dispatch.phases import Draining, Resizing
from runtime.dispatch.pipeline import GroupState, TaskInWork
from runtime.dispatch.settings import DispatcherSettings
from runtime.dispatch.state import State

DEEPEST = 2
"""Maximum number of tasks of a worker: one running and one prefetched; with waiting calls, as many as run at once."""


class CheckedDispatcher(Dispatcher):
    """A dispatcher that checks its invariants after each event; far too slow for production."""

    @classmethod
    def resumed(cls, state: State, settings: DispatcherSettings, size_of: SizeOf) -> CheckedDispatcher:
        """Return a dispatcher that continues from ``state``, and changes it."""
        made = cls.__new__(cls)
        made._set_up(state, settings, size_of)
        return made

    def _set_up(self, state: State, settings: DispatcherSettings, size_of: SizeOf) -> None:
        self._invariants = Invariants(state)
        super()._set_up(state, settings, size_of)

    def handle_all(self, events: Iterable[Event]) -> tuple[list[Instruction], list[Outcome]]:
        """Handle the events. Raises: DispatcherError also if an invariant is violated."""
        instructions: list[Instruction] = []
        outcomes: list[Outcome] = []
        for event in events:
            told = super().handle_all((event,))
            instructions += told[0]
            outcomes += told[1]
            if faults := self._invariants.faults():
                raise DispatcherError("; ".join(faults), event, self.log)
        return instructions, outcomes


class Invariants:
    """Remembers the values of the counters, which must never decrease."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._marks = _marks(state)

    def faults(self) -> list[str]:
        """Yield a sentence for each violated invariant."""
        state, marks = self._state, _marks(self._state)
        back = [
            f"{name} fell from {self._marks[name]} to {count}"
            for name, count in marks.items()
            if count < self._marks[name]
        ]
        self._marks = marks
        return [
            *back,
            *_places(state),
            *_order(state),
            *_counts(state),
            *_memory(state),
            *_bindings(state),
            *_replicas(state),
            *_tasks(state),
            *_gates(state),
            *_keys(state),
            *_phase(state),
        ]


def _marks(state: State) -> dict[str, int]:
    """Return counters that only grow."""
    gates = {f"the gate of stage {index}": gate.expected for index, gate in state.stateful.gates.items()}
    return {
        "accepted": state.admission.accepted,
        "the next serial to leave": state.outbox.next_serial,
        "the next turn to leave": state.outbox.next_turn,
        "tasks given": state.tasks.given,
        **gates,
    }


def _places(state: State) -> Iterator[str]:
    """Check that every accepted item that has not left is in exactly one place, and that nothing else is anywhere."""
    places: dict[int, list[str]] = {}
    for bundle, where in _whereabouts(state):
        for serial in range(bundle.serial, bundle.serial + bundle.count):
            places.setdefault(serial, []).append(where)
    for serial in state.outbox.waiting:
        places.setdefault(serial, []).append("the outbox")
    for serial in range(state.outbox.next_serial, state.admission.accepted):
        if len(found := places.pop(serial, [])) != 1:
            yield f"item {serial} is in {len(found)} places: {', '.join(found) or 'none'}"
    for serial, found in places.items():
        yield f"item {serial} is in {', '.join(found)}, but it is out already or was never accepted"


def _whereabouts(state: State) -> Iterator[tuple[Bundle, str]]:
    """Yield all bundles that are not in the outbox, with their places."""
    for bundle in state.admission.queue:
        yield bundle, "the queue"
    for group in _groups(state):
        for bundle in group.listed:
            yield bundle, f"the work list of {_name(group)}"
    for keys in state.stateful.partitioned.values():
        for assembly in keys.entered:
            yield assembly.bundle, "a partitioned stage"
    for worker in state.crew.workers.values():
        for task in worker.outstanding:
            if task.picked is None:
                yield task.bundle, f"worker {worker.worker}"


def _order(state: State) -> Iterator[str]:
    """Check that queue and outbox keep the order of the serial numbers, and that delivered items were counted once."""
    serials = [bundle.serial for bundle in state.admission.queue]
    if serials != sorted(serials):
        yield f"the queue is out of order: {serials}"
    if (queued := sum(bundle.count for bundle in state.admission.queue)) != state.admission.queued:
        yield f"the queue counts {state.admission.queued} items; {queued} are in it"
    if state.outbox.next_serial in state.outbox.waiting:
        yield f"item {state.outbox.next_serial} could leave and waits in the outbox"
    left = state.outbox.delivered + state.outbox.failed
    if left != state.outbox.next_turn:
        yield f"{left} items were counted as delivered or failed, and {state.outbox.next_turn} turns have left"


def _counts(state: State) -> Iterator[str]:
    """Check that the counters of a pipeline and its groups agree with its content."""
    waiting = [(bundle, group) for group in _groups(state) for bundle in group.listed]
    in_work = [(task.bundle, task.group) for task in _all_tasks(state) if task.picked is None]
    in_work += [
        (assembly.bundle, keys.group)
        for keys in state.stateful.partitioned.values()
        for assembly in keys.entered
        if keys.group is not None
    ]
    in_flight = Counter(id(group.pipeline) for _, group in (*waiting, *in_work))
    loads = Counter(id(group) for _, group in (*waiting, *in_work))
    for pipeline in state.course.pipelines:
        if pipeline.in_flight != in_flight[id(pipeline)]:
            yield f"{pipeline.composition.name} counts {pipeline.in_flight} in flight; {in_flight[id(pipeline)]} are"
    for group in _groups(state):
        if group.load != loads[id(group)]:
            yield f"{_name(group)} counts a load of {group.load}; it is {loads[id(group)]}"
        if group.listed and group.pipeline.migrating:
            yield f"{_name(group)} is given up and still has items waiting"
    if strays := [bundle.serial for bundle, group in in_work if group.pipeline not in state.course.pipelines]:
        yield f"items {strays} are in work for a composition that is over"


def _memory(state: State) -> Iterator[str]:
    """Check that the counted memory agrees with the content."""
    queued_bytes = sum(bundle.size_bytes for bundle in state.admission.queue)
    if queued_bytes != state.admission.queued_bytes:
        yield f"the queue counts {state.admission.queued_bytes} bytes; {queued_bytes} are in it"
    started = [bundle for bundle, where in _whereabouts(state) if where != "the queue"] + state.outbox.done
    counted = state.outbox.started
    items, used = sum(bundle.count for bundle in started), sum(bundle.size_bytes for bundle in started)
    if (counted.items, counted.used) != (items, used):
        yield f"{counted.items} items of {counted.used} bytes are counted as started; {items} of {used} are"


def _bindings(state: State) -> Iterator[str]:
    """Check that worker and group agree on their binding."""
    groups = {id(group) for group in _groups(state)}
    for worker in state.crew.workers.values():
        if worker.group is not None and id(worker.group) not in groups:
            yield f"worker {worker.worker} is bound to a group of a composition that is over"
    for group in _groups(state):
        listed = [*group.workers, *group.leaving]
        for worker in listed:
            if worker.group is not group or state.crew.workers.get(worker.worker) is not worker:
                yield f"{_name(group)} lists worker {worker.worker}, which is not bound to it"
            if worker.loads != group.loads:
                yield f"worker {worker.worker} of {_name(group)} has not loaded its stages"
        bound = [worker.worker for worker in state.crew.workers.values() if worker.group is group]
        if Counter(bound) != Counter(worker.worker for worker in listed):
            yield f"workers {bound} are bound to {_name(group)}, which does not list them once each"


def _replicas(state: State) -> Iterator[str]:
    """Check that a group has the replicas of its composition, except during a resize, and no more workers than that."""
    for group in _groups(state):
        told = group.pipeline.composition.groups[group.index]
        if group.group != told and not isinstance(state.course.phase, Resizing):
            yield f"{_name(group)} has {group.group.replicas} replicas; its composition says {told.replicas}"
        if len(group.workers) > group.group.replicas + group.keyed:  # plus one for values that killed two workers
            yield f"{_name(group)} has {len(group.workers)} workers for {group.group.replicas} replicas"
    active = state.course.active
    bound = sum(len(group.workers) for group in active.groups)
    if active.roaming is not None and bound > active.composition.workers:
        yield f"{bound} workers are at {active.composition.name}, which has {active.composition.workers}"


def _tasks(state: State) -> Iterator[str]:
    """Check that a worker has at most the allowed tasks, with unique numbers, in the order in which they were given."""
    numbers = Counter(task.task_id for task in _all_tasks(state))
    for number, count in numbers.items():
        if count > 1 or number >= state.tasks.given:
            yield f"task {number} is in work {count} times; {state.tasks.given} were given"
    for worker in state.crew.workers.values():
        given = [task.task_id for task in worker.outstanding]
        limit = max((DEEPEST, *(task.group.at_once for task in worker.outstanding)))
        if len(given) > limit or given != sorted(given):
            yield f"worker {worker.worker} has tasks {given}; at most {limit}, in the order given"
        if strange := [
            task.task_id for task in worker.outstanding if (task.since_s is None) == (task in worker.running)
        ]:
            yield f"worker {worker.worker} runs, or does not run, tasks {strange}, and the book says otherwise"


def _gates(state: State) -> Iterator[str]:
    """Check that a stateful stage has one bundle at a time, the next one, and a gate not behind what left."""
    for index, gate in state.stateful.gates.items():
        inside = [task.bundle.turn for task in _all_tasks(state) if task.picked is None and _covers(task, index)]
        if inside not in ([], [gate.expected]):
            yield f"stage {index} has turns {inside} in work; it is turn {gate.expected}"
        if gate.expected < state.outbox.next_turn:
            yield f"stage {index} waits for turn {gate.expected}, which has left"


def _keys(state: State) -> Iterator[str]:
    """Check that a partition is at one worker while its tasks are; its bundles are in order, of one group, not done."""
    for index, keys in state.stateful.partitioned.items():
        busy = {
            worker.worker: marks
            for worker in state.crew.workers.values()
            if (
                marks := [
                    marked(keys.piece(task.bundle, task.picked).partitions)
                    for task in worker.outstanding
                    if task.picked is not None and task.group.first == index
                ]
            )
        }
        if busy != keys.in_work:
            yield f"partitions {busy} of stage {index} are in work; {keys.in_work} are marked so"
        if any(one & other for one, other in combinations(map(_any_of, busy.values()), 2)):
            yield f"a partition of stage {index} is in work at two workers: {busy}"
        turns = [assembly.bundle.turn for assembly in keys.entered]
        if turns != sorted(turns) or (not turns) != (keys.group is None):
            yield f"turns {turns} are at stage {index} of {keys.group and _name(keys.group)}"
        if idle := [assembly.bundle.serial for assembly in keys.entered if assembly.done]:
            yield f"bundles {idle} are done and still at stage {index}"
        if strange := [each for each in keys.holders if each is not None and each not in state.crew.workers]:
            yield f"workers {strange} are gone and hold partitions of stage {index}"


def _phase(state: State) -> Iterator[str]:
    """Check that a drain has items to drain, and that its composition is not the active one."""
    phase = state.course.phase
    if isinstance(phase, Draining):
        if phase.pipeline is state.course.active:
            yield f"{phase.from_name} is active and drains"
        if phase.pipeline.in_flight <= 0 and phase.emptied_s is None:
            yield f"{phase.from_name} is empty and the drain has not ended"


def _groups(state: State) -> list[GroupState]:
    return [group for pipeline in state.course.pipelines for group in pipeline.groups]


def _all_tasks(state: State) -> list[TaskInWork]:
    return [task for worker in state.crew.workers.values() for task in worker.outstanding]


def _any_of(marks: Iterable[int]) -> int:
    return reduce(or_, marks, 0)


def _covers(task: TaskInWork, stage: int) -> bool:
    return task.bundle.next_stage <= stage <= task.group.last


def _name(group: GroupState) -> str:
    return f"group {group.index} of {group.pipeline.composition.name}"
