"""Work: items go to workers as tasks, from group to group, and out in order."""

from __future__ import annotations

from collections.abc import Iterable

from runtime.dispatch.instructions import SendTask, Task
from runtime.dispatch.pipeline import GroupState, Item, WorkerState
from runtime.dispatch.settings import DispatcherSettings
from runtime.dispatch.state import State
from runtime.dispatch.turn import Turn


class Work:
    """Gives out what may be run now, and takes items on when a task of theirs is over."""

    def __init__(self, state: State, turn: Turn, settings: DispatcherSettings) -> None:
        self._turn = turn
        self._tasks = state.tasks
        self._course = state.course
        self._queue = state.admission.queue
        self._stateful = state.stateful
        self._outbox = state.outbox
        self._prefetch_below_s = settings.prefetch_below_s
        self._reorder_items = settings.reorder_items

    # --- out to the workers -----------------------------------------------------------------------------------------

    def feed(self) -> None:
        """Starts waiting items, as far as the first group may have them."""
        self.dispatch(self._course.active.groups[0])

    def dispatch(self, group: GroupState) -> None:
        """Gives the group's workers what they may have."""
        if not group.waiting and (group.index or not self._queue):
            return
        depth = group.depth(self._prefetch_below_s)
        while (worker := group.free_worker(depth)) is not None:
            item = self._next_item(group)
            if item is None:
                return
            self._send(worker, group, item)

    def waits_for_worker(self, group: GroupState) -> bool:
        """Whether there is an item that a worker of the group might begin now."""
        if group.waiting:
            item = group.waiting[0][1]
            return not group.ordered or self._stateful.open_for(group, item.turn, item.next_stage)
        if group.index or group.pipeline is not self._course.active or not self._queue:
            return False
        return self._may_start(group)

    def _next_item(self, group: GroupState) -> Item | None:
        """The oldest item that the group may run now: from its work list, or a new one if it is the first group."""
        if not self.waits_for_worker(group):
            return None
        if group.waiting:
            return group.pop()
        pipeline, item = group.pipeline, self._queue.popleft()
        item.started_s = self._turn.now_s
        item.turn = self._outbox.take_turn()
        item.pipeline = pipeline
        pipeline.in_flight += 1
        group.load += 1
        return item

    def _may_start(self, group: GroupState) -> bool:
        """Whether the first group may have a new item."""
        if not self._course.may_feed(self._turn.now_s) or self._outbox.room_taken >= self._reorder_items:
            return False
        if not self._course.active.has_room(self._prefetch_below_s):
            return False
        return not group.ordered or self._stateful.open_for(group, self._outbox.turns_taken, 0)

    def _send(self, worker: WorkerState, group: GroupState, item: Item) -> None:
        states = self._stateful.needed_by(group, item) if group.ordered else {}
        task_id = self._tasks.give(worker, group, item, self._turn.now_s)
        task = Task(task_id, item.serial, group.stages_from(item.next_stage), item.payload, states)
        self._turn.instructions.append(SendTask(worker.worker, task))

    # --- on and out -------------------------------------------------------------------------------------------------

    def route(self, item: Item) -> None:
        """An item that is not in work goes on: to its next group, or out."""
        pipeline = item.pipeline
        assert pipeline is not None, "only started items are routed"
        if item.next_stage == len(pipeline.by_stage):
            self.leave(item)
            return
        if pipeline.migrating:
            pipeline = self._course.migrate(item)
        group = pipeline.by_stage[item.next_stage]
        group.load += 1
        group.put(item)
        self.dispatch(group)

    def retry(self, item: Item, error: str, hopeless: bool) -> None:
        """A task of the item came to nothing: it runs again, unless that is ``hopeless``."""
        if hopeless:
            self.leave(item, error)
        else:
            self.route(item)

    def leave(self, item: Item, error: str | None = None) -> None:
        """A started item is done, or dead with ``error``: it waits to leave; stateful stages need not wait for it."""
        assert item.pipeline is not None, "only started items leave"
        item.pipeline.in_flight -= 1
        if error is not None:
            self.pass_gates(self._stateful.from_stage(item.next_stage), item.turn)
        self._turn.outcomes += self._outbox.put(item, error, self._turn.now_s)

    def shed(self, item: Item) -> None:
        """An item that was never started makes room for newer ones."""
        self._turn.outcomes += self._outbox.put_shed(item, self._turn.now_s)

    def pass_gates(self, stages: Iterable[int], turn: int) -> None:
        """These stateful stages have seen the item, or never will: the next one may come."""
        for index in stages:
            self._stateful.gates[index].passed(turn)
            for pipeline in self._course.pipelines:
                self.dispatch(pipeline.by_stage[index])
