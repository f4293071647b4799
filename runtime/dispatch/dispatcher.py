"""The dispatcher: events in, instructions and outcomes out. No clock, no I/O, no threads.

The form is that of dask's worker state machine; ordering follows Prasaad et al. (section 3), hand-over Vogel et al.
(section 3.3). It holds every item until its result is back: a lost worker's tasks run again elsewhere (at least once
inside), a result enters the reorder buffer once (exactly once, in order, at the sink).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from compositions.model import Composition, Stage
from runtime.dispatch.crew import Crew
from runtime.dispatch.events import (
    DispatcherView,
    Event,
    Instruction,
    ItemAdmitted,
    KillWorker,
    Outcome,
    Payload,
    SendTask,
    StartFailed,
    StartWorkers,
    StopWorker,
    SwitchOverdue,
    SwitchRequested,
    Task,
    TaskDone,
    TaskFailed,
    TaskTimed,
    Tick,
    WorkerId,
    WorkerJoined,
    WorkerLost,
    WorkersChanged,
    WorkerStartFailed,
)
from runtime.dispatch.ordering import OrderGate
from runtime.dispatch.outbox import Outbox
from runtime.dispatch.pipeline import GroupState, Item, Pipeline, TaskInWork, WorkerState
from runtime.dispatch.switch import Switch


@dataclass(frozen=True, slots=True)
class DispatcherSettings:
    buffer_items: int = 32
    """Admitted items that wait for a worker; more are refused (``block``) or replace the oldest (``shed``)."""
    overload: Literal["block", "shed"] = "block"
    attempts: int = 3
    """Runs of a task whose stage raises, before the item becomes a dead letter."""
    losses: int = 3
    """Workers that may die while running the same task, before the item counts as their killer."""
    spares: int = 1
    """Warm workers beyond those of the active composition: a lost one is replaced at once."""
    idle_worker_s: float = 60.0
    """After so long without a task, a worker beyond the spares is stopped."""
    prefetch_below_s: float = 0.02
    """Mean task time below which a worker gets a second task: 20 ms is some 100 hops; above, a hop is lost in it."""
    reorder_items: int = 1024
    """How far the newest started item may be ahead of the next one to deliver."""
    prepare_limit_s: float = 60.0
    """A switch whose workers are not there after so long fails and leaves the old composition running."""
    drain_limit_s: float = 10.0
    """A drain longer than this, and than 8 times its estimate, moves its remaining items to the new composition."""
    time_limit_s: float = 60.0
    """Wall time after which a call of a stage without a limit of its own counts as hung."""
    restart_pause_s: float = 1.0
    """Pause after a worker could not be started."""


class Dispatcher:
    """Owns work lists, bindings, order, retries, in-flight limits and the switch of one running app."""

    def __init__(
        self,
        stages: Sequence[Stage],
        composition: Composition,
        settings: DispatcherSettings | None = None,
        size_of: Callable[[Payload], int] | None = None,
    ) -> None:
        """``size_of`` a payload in bytes, which may tell how long a task will take; without it sizes are unknown."""
        self._stages = tuple(stages)
        self._names = tuple(stage.name for stage in stages)
        self._settings = settings or DispatcherSettings()
        self._size_of = size_of or (lambda payload: 0)
        self._active = Pipeline(composition, self._stages)
        self._switch: Switch | None = None
        self._crew = Crew()
        self._queue: deque[Item] = deque()
        self._outbox = Outbox()
        self._gates = {name: OrderGate() for group in self._active.groups for name in group.ordered}
        self._states: dict[str, Payload] = {}
        self._accepted = self._next_task_id = 0
        self._now_s = 0.0
        self._instructions: list[Instruction] = []
        self._outcomes: list[Outcome] = []

    # --- the outside ------------------------------------------------------------------------------------------------

    def start(self, now_s: float) -> list[Instruction]:
        """The first instructions: start the workers of the first composition."""
        self._now_s, self._instructions = now_s, []
        self._ensure_workers()
        return self._instructions

    def handle(self, event: Event) -> tuple[list[Instruction], list[Outcome]]:
        """One event in; effects to carry out and outcomes to report, in order."""
        self._now_s = event.at_s
        self._instructions, self._outcomes = [], []
        self._HANDLERS[type(event)](self, event)
        return self._instructions, self._outcomes

    @property
    def has_room(self) -> bool:
        """Whether an ItemAdmitted is welcome now; with overload ``shed`` it always is."""
        return self._settings.overload == "shed" or len(self._queue) < self._settings.buffer_items

    @property
    def wake_at_s(self) -> float:
        """When a Tick is due for the switch under way; infinite without one."""
        return self._switch.next_deadline_s(self._now_s) if self._switch else math.inf

    @property
    def accepted(self) -> int:
        """Items admitted so far, and so the next serial number."""
        return self._accepted

    @property
    def idle(self) -> bool:
        """Every accepted item is out."""
        return self._outbox.next_serial == self._accepted

    def view(self, now_s: float) -> DispatcherView:
        """The state at ``now_s``, which is not before the last event."""
        active = self._active
        return DispatcherView(
            composition=active.composition,
            switching=self._switch is not None,
            queued=len(self._queue),
            in_flight=active.in_flight + (self._draining.in_flight if self._draining else 0),
            positions=active.positions(self._stages),
            pending=active.pending(self._stages, now_s),
            accepted=self._accepted,
            delivered=self._outbox.delivered,
            failed=self._outbox.failed,
            shed=self._outbox.shed,
            restarts=self._crew.restarts,
            workers=self._crew.views(active),
        )

    # --- items ------------------------------------------------------------------------------------------------------

    def _admit(self, event: ItemAdmitted) -> None:
        item = Item(self._accepted, event.arrived_s, event.payload, size_bytes=self._size_of(event.payload))
        self._accepted += 1
        self._queue.append(item)
        if self._settings.overload == "shed" and len(self._queue) > self._settings.buffer_items:
            self._finish(self._queue.popleft(), error="shed to make room for newer items", shed=True)
        self._dispatch(self._active.groups[0])

    def _next_item(self, group: GroupState) -> Item | None:
        """The oldest item that the group may run now: from its work list, or a new one if it is the first group."""
        if group.waiting:
            item = group.waiting[0][1]
            return group.pop() if self._gates_open(group, item) else None
        pipeline = group.pipeline
        if group.index or pipeline is not self._active or not self._queue or not self._may_start(self._queue[0]):
            return None
        item = self._queue[0]
        if not self._gates_open(group, item):
            return None
        self._queue.popleft()
        item.started_s = self._now_s
        item.pipeline = pipeline
        pipeline.in_flight += 1
        group.load += 1
        return item

    def _may_start(self, item: Item) -> bool:
        if self._switch is not None and not self._switch.may_feed(self._now_s):
            return False
        if item.serial - self._outbox.next_serial >= self._settings.reorder_items:
            return False
        return self._active.in_flight < self._active.limit(self._settings.prefetch_below_s)

    def _gates_open(self, group: GroupState, item: Item) -> bool:
        return all(
            self._gates[name].opens_for(item.serial)
            for name in group.ordered
            if self._names.index(name) >= item.next_stage
        )

    def _dispatch(self, group: GroupState) -> None:
        """Gives the group's workers what they may have."""
        depth = group.depth(self._settings.prefetch_below_s)
        while (worker := group.free_worker(depth)) is not None:
            item = self._next_item(group)
            if item is None:
                return
            self._send(worker, group, item)

    def _send(self, worker: WorkerState, group: GroupState, item: Item) -> None:
        names = self._names[item.next_stage : group.last + 1]
        task_id = self._next_task_id
        self._next_task_id += 1
        states = {name: self._states.get(name) for name in names if name in group.ordered} if group.ordered else {}
        prefetched = bool(worker.outstanding)
        worker.outstanding.append(TaskInWork(task_id, item, group, self._now_s, prefetched))
        if not prefetched:
            worker.head_since_s = self._now_s
        self._instructions.append(SendTask(worker.worker, Task(task_id, item.serial, names, item.payload, states)))

    # --- results ----------------------------------------------------------------------------------------------------

    def _take_back(self, worker_id: WorkerId, task_id: int) -> tuple[WorkerState, TaskInWork] | None:
        """The task that a worker returns; None for a late word of a worker given up: its task runs elsewhere."""
        worker = self._crew.workers.get(worker_id)
        if worker is None or not worker.outstanding or worker.outstanding[0].task_id != task_id:
            return None
        task = worker.outstanding.popleft()
        worker.head_since_s = worker.idle_since_s = self._now_s
        task.group.load -= 1
        return worker, task

    def _task_done(self, event: TaskDone) -> None:
        since_s = self._head_since(event.worker)
        back = self._take_back(event.worker, event.task_id)
        if back is None:
            return
        worker, task = back
        item, group = task.item, task.group
        busy_s = 0.0
        for timing in event.timings:
            busy_s += timing.wall_s
        group.note_busy(busy_s)
        hop_s = None if task.prefetched else max(0.0, self._now_s - since_s - busy_s)
        name = group.pipeline.composition.name
        self._outcomes.append(TaskTimed(self._now_s, name, event.timings, hop_s, item.size_bytes, item.serial))
        self._states.update(event.states)
        item.payload, item.attempts, item.losses = event.payload, 0, 0
        item.size_bytes = self._size_of(event.payload)
        item.next_stage = group.last + 1
        self._pass_gates(group.ordered, item.serial)
        self._route(item)
        self._refill(worker, group)

    def _head_since(self, worker_id: WorkerId) -> float:
        worker = self._crew.workers.get(worker_id)
        return worker.head_since_s if worker else self._now_s

    def _route(self, item: Item) -> None:
        """An item that is not in work goes on: to its next group, or out."""
        pipeline = item.pipeline
        assert pipeline is not None, "only started items are routed"
        if item.next_stage == len(self._names):
            self._leave(item)
            return
        if pipeline.migrating:
            pipeline = self._migrate_item(item)
        group = pipeline.by_stage[item.next_stage]
        group.load += 1
        group.put(item)
        self._dispatch(group)

    def _leave(self, item: Item, error: str | None = None) -> None:
        assert item.pipeline is not None, "only started items leave"
        item.pipeline.in_flight -= 1
        self._finish(item, error)

    def _finish(self, item: Item, error: str | None = None, shed: bool = False) -> None:
        """The item's fate is known: it waits for its turn to leave, and stateful stages need not wait for it."""
        if error is not None:
            self._pass_gates(tuple(self._gates), item.serial, item.next_stage)
        self._outcomes += self._outbox.put(item, error, shed, self._now_s)

    def _pass_gates(self, names: tuple[str, ...], serial: int, from_stage: int = 0) -> None:
        for name in names:
            if self._names.index(name) >= from_stage:
                self._gates[name].passed(serial)
                for pipeline in self._pipelines():
                    self._dispatch(pipeline.by_stage[self._names.index(name)])

    def _refill(self, worker: WorkerState, group: GroupState) -> None:
        """After a task came back: more work for its worker and for whoever waited for room."""
        if worker.group is not None:
            self._dispatch(worker.group)
        if self._switch is not None:
            self._advance_drain()
        if group.index or worker.group is not group:
            self._dispatch(self._active.groups[0])

    # --- failures ---------------------------------------------------------------------------------------------------

    def _task_failed(self, event: TaskFailed) -> None:
        back = self._take_back(event.worker, event.task_id)
        if back is None:
            return
        worker, task = back
        self._disturb(task)
        task.item.attempts += 1
        self._retry(task, task.item.attempts >= self._settings.attempts, event.error)
        self._refill(worker, task.group)

    def _retry(self, task: TaskInWork, hopeless: bool, error: str) -> None:
        if hopeless:
            self._leave(task.item, error)
        else:
            self._route(task.item)

    def _disturb(self, task: TaskInWork) -> None:
        if self._switch is not None and task.group.pipeline is self._switch.draining:
            self._switch.disturbed = True

    def _worker_lost(self, event: WorkerLost) -> None:
        if event.worker not in self._crew.workers:
            return
        self._outcomes.append(WorkersChanged(self._now_s, lost=(event.worker,), reason=event.reason))
        self._give_up(event.worker, f"worker {event.worker} was lost: {event.reason or 'no reason given'}")

    def _give_up(self, worker_id: WorkerId, why: str) -> None:
        """A worker is gone: what it ran counts a loss, what it had not begun does not; all of it runs elsewhere."""
        worker = self._crew.lose(worker_id)
        assert worker is not None, "only a known worker is given up"
        for position, task in enumerate(worker.outstanding):
            task.group.load -= 1
            task.item.losses += position == 0
            self._disturb(task)
            self._retry(task, task.item.losses >= self._settings.losses, why)
        self._ensure_workers()
        self._assign()
        if self._switch is not None:
            self._advance_drain()

    def _kill_hung(self) -> None:
        for worker in list(self._crew.workers.values()):
            if not worker.outstanding:
                continue
            task = worker.outstanding[0]
            limit_s = self._limit_s(task)
            if self._now_s - worker.head_since_s <= limit_s:
                continue
            names = ", ".join(self._names[task.item.next_stage : task.group.last + 1])
            why = f"{names} did not return within its time limit of {limit_s:g} s"
            self._instructions.append(KillWorker(worker.worker, why))
            self._outcomes.append(WorkersChanged(self._now_s, lost=(worker.worker,), reason=why))
            self._give_up(worker.worker, why)

    def _limit_s(self, task: TaskInWork) -> float:
        stages = self._stages[task.item.next_stage : task.group.last + 1]
        return sum(stage.time_limit_s or self._settings.time_limit_s for stage in stages)

    # --- workers ----------------------------------------------------------------------------------------------------

    def _worker_joined(self, event: WorkerJoined) -> None:
        self._crew.join(event)
        self._outcomes.append(WorkersChanged(self._now_s, joined=(event.worker,)))
        if self._switch is not None and self._switch.draining is None:
            self._try_hand_over()
        self._assign()

    def _start_failed(self, event: WorkerStartFailed) -> None:
        failures = self._crew.start_failed(self._now_s + self._settings.restart_pause_s)
        self._outcomes.append(StartFailed(self._now_s, event.reason, failures))
        if self._switch is not None and self._switch.draining is None:
            self._end_switch(f"a worker could not be started: {event.reason}")

    def _wanted_workers(self) -> int:
        target = self._switch.request.composition.workers if self._switch else 0
        return max(self._active.composition.workers, target) + self._settings.spares

    def _ensure_workers(self) -> None:
        if missing := self._crew.start_missing(self._wanted_workers(), self._now_s):
            self._instructions.append(StartWorkers(missing))

    def _assign(self) -> None:
        for group in self._crew.assign(self._draining, self._active):
            self._dispatch(group)

    def _stop_surplus(self) -> None:
        idle_before_s = self._now_s - self._settings.idle_worker_s
        for worker in self._crew.remove_surplus(self._wanted_workers(), idle_before_s):
            self._instructions.append(StopWorker(worker))

    # --- the switch -------------------------------------------------------------------------------------------------

    @property
    def _draining(self) -> Pipeline | None:
        return self._switch.draining if self._switch else None

    def _pipelines(self) -> list[Pipeline]:
        return [self._draining, self._active] if self._draining else [self._active]

    def _switch_requested(self, event: SwitchRequested) -> None:
        switch = Switch(event, self._active.composition.name, event.at_s + self._settings.prepare_limit_s)
        if event.composition.stages != self._names:
            self._outcomes.append(switch.ended(self._now_s, f"{event.composition.name} does not run {self._names}"))
        elif self._switch is not None:
            busy = self._switch.request.composition.name
            self._outcomes.append(switch.ended(self._now_s, f"a switch to {busy} is under way"))
        else:
            self._switch = switch
            self._ensure_workers()
            self._try_hand_over()

    def _try_hand_over(self) -> None:
        """Prepare is over when all workers of the new composition are there: hand over, at an item boundary."""
        assert self._switch is not None, "called while a switch is prepared"
        if len(self._crew) < self._switch.request.composition.workers:
            return
        old = self._active
        self._active = Pipeline(self._switch.request.composition, self._stages)
        for group in self._active.groups:
            group.busy_s = self._known_busy_s(old, group)
        self._switch.hand_over(self._now_s, old, self._settings.drain_limit_s)
        self._advance_drain()
        self._assign()

    @staticmethod
    def _known_busy_s(old: Pipeline, group: GroupState) -> float | None:
        """The same stages ran in the old composition; a merged group's time is shared out evenly among its stages."""
        shares = [
            None if state.busy_s is None else state.busy_s / len(state.group.stages)
            for state in old.by_stage[group.first : group.last + 1]
        ]
        known = [share for share in shares if share is not None]
        return sum(known) if len(known) == len(shares) else None

    def _advance_drain(self) -> None:
        switch = self._switch
        if switch is None or switch.draining is None:
            return
        if switch.draining.in_flight == 0:
            self._crew.release(switch.draining)
            self._end_switch(None)
        elif self._crew.release_dry(switch.draining):
            self._assign()

    def _end_switch(self, error: str | None) -> None:
        assert self._switch is not None, "called with a switch under way"
        self._outcomes.append(self._switch.ended(self._now_s, error))
        self._switch = None
        self._assign()
        self._dispatch(self._active.groups[0])

    def _tick(self, event: Tick) -> None:
        self._kill_hung()
        if self._switch is not None:
            self._tick_switch(self._switch)
        self._stop_surplus()
        self._ensure_workers()
        self._dispatch(self._active.groups[0])

    def _tick_switch(self, switch: Switch) -> None:
        now_s = self._now_s
        if switch.draining is None:
            if now_s >= switch.prepare_by_s:
                self._end_switch(f"its workers were not ready after {self._settings.prepare_limit_s:g} s")
        elif now_s >= switch.limit_at_s:
            self._migrate(switch)
        elif now_s >= switch.overdue_at_s:
            in_flight = switch.draining.in_flight
            self._outcomes.append(SwitchOverdue(now_s, switch.from_name, switch.estimate_s, in_flight))
            switch.back_off()

    def _migrate(self, switch: Switch) -> None:
        """The drain passed its limit: what waits moves to the new composition now, what runs moves when it is back."""
        old = switch.draining
        assert old is not None, "only a draining pipeline is migrated"
        old.migrating = True
        switch.limit_at_s = switch.overdue_at_s = math.inf
        switch.feed_at_s = self._now_s
        for group in old.groups:
            while group.waiting:
                group.load -= 1
                self._route(group.pop())
        self._advance_drain()

    def _migrate_item(self, item: Item) -> Pipeline:
        assert item.pipeline is not None, "only started items are migrated"
        assert self._switch is not None, "items are migrated during a switch"
        item.pipeline.in_flight -= 1
        item.pipeline = self._active
        self._active.in_flight += 1
        self._switch.migrated += 1
        return self._active

    _HANDLERS: ClassVar[Mapping[type, Callable[[Dispatcher, Any], None]]] = {
        ItemAdmitted: _admit,
        TaskDone: _task_done,
        TaskFailed: _task_failed,
        WorkerJoined: _worker_joined,
        WorkerLost: _worker_lost,
        WorkerStartFailed: _start_failed,
        SwitchRequested: _switch_requested,
        Tick: _tick,
    }
