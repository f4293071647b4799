"""Work: bundles go to workers as tasks, from group to group, and out in order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from runtime.dispatch.instructions import SendTask, Task
from runtime.dispatch.pipeline import Bundle, GroupState, WorkerState
from runtime.dispatch.settings import DispatcherSettings
from runtime.dispatch.state import State
from runtime.dispatch.turn import Turn

REORDER_BUNDLES = 64
"""How far the newest started bundle may be ahead whatever its size: fewer would leave workers of later groups idle."""


class Work:
    """Gives out what may be run now, and takes bundles on when a task of theirs is over."""

    def __init__(self, state: State, turn: Turn, settings: DispatcherSettings) -> None:
        self._turn = turn
        self._tasks = state.tasks
        self._course = state.course
        self._admission = state.admission
        self._stateful = state.stateful
        self._outbox = state.outbox
        self._prefetch_below_s = settings.prefetch_below_s
        self._reorder_items = settings.reorder_items
        self._started_bytes = settings.started_bytes

    # --- out to the workers -----------------------------------------------------------------------------------------

    def feed(self) -> None:
        """Starts waiting bundles, as far as the first group may have them."""
        self.dispatch(self._course.active.groups[0])

    def dispatch(self, group: GroupState) -> None:
        """Gives the group's workers what they may have."""
        if not group.waiting and (group.index or not self._admission.queue):
            return
        depth = group.depth(self._prefetch_below_s)
        while (worker := group.free_worker(depth)) is not None:
            bundle = self._next_bundle(group)
            if bundle is None:
                return
            self._send(worker, group, bundle)

    def waits_for_worker(self, group: GroupState) -> bool:
        """Whether there is a bundle that a worker of the group might begin now."""
        if group.waiting:
            bundle = group.waiting[0][1]
            return not group.ordered or self._stateful.open_for(group, bundle.turn, bundle.next_stage)
        if group.index or group.pipeline is not self._course.active or not self._admission.queue:
            return False
        return self._may_start(group)

    def _next_bundle(self, group: GroupState) -> Bundle | None:
        """The oldest that the group may run now: from its work list, or a new one if it is the first group."""
        if not self.waits_for_worker(group):
            return None
        if group.waiting:
            return group.pop()
        pipeline, bundle = group.pipeline, self._admission.start()
        bundle.started_s = self._turn.now_s
        self._outbox.take_turns(bundle)
        bundle.pipeline, bundle.composition = pipeline, pipeline.composition.name
        pipeline.in_flight += 1
        group.load += 1
        return bundle

    def _may_start(self, group: GroupState) -> bool:
        """Whether the first group may have a new bundle."""
        most_ahead = max(self._reorder_items, REORDER_BUNDLES * self._admission.queue[0].count)
        if not self._course.may_feed(self._turn.now_s) or self._outbox.room_taken >= most_ahead:
            return False
        if not self._outbox.started.has_room(self._started_bytes):
            return False
        if not self._course.active.has_room(self._prefetch_below_s):
            return False
        return not group.ordered or self._stateful.open_for(group, self._outbox.turns_taken, 0)

    def _send(self, worker: WorkerState, group: GroupState, bundle: Bundle) -> None:
        states = self._stateful.needed_by(group, bundle) if group.ordered else {}
        task_id = self._tasks.give(worker, group, bundle, self._turn.now_s)
        stages, count = group.stages_from(bundle.next_stage), bundle.count
        task = Task(task_id, bundle.serial, stages, bundle.payload, states, bundle.start, count)
        self._turn.instructions.append(SendTask(worker.worker, task))

    # --- on and out -------------------------------------------------------------------------------------------------

    def route(self, bundle: Bundle) -> None:
        """One that is not in work goes on: to its next group, or out."""
        pipeline = bundle.pipeline
        assert pipeline is not None, "only started items are routed"
        if bundle.next_stage == len(pipeline.by_stage):
            self.leave(bundle)
            return
        if pipeline.migrating:
            pipeline = self._course.migrate(bundle)
        group = pipeline.by_stage[bundle.next_stage]
        group.load += 1
        group.put(bundle)
        self.dispatch(group)

    def part(self, bundle: Bundle, pieces: Sequence[object]) -> None:
        """``bundle``, which is not in work, is given up for ``pieces`` of it, which are to be routed, or to leave."""
        assert bundle.pipeline is not None, "only started items are in flight"
        bundle.pipeline.in_flight += len(pieces) - 1

    def retry(self, bundle: Bundle, error: str, hopeless: bool) -> None:
        """A task of it came to nothing: it runs again, unless that is ``hopeless``."""
        if hopeless:
            self.leave(bundle, error)
        else:
            self.route(bundle)

    def leave(self, bundle: Bundle, error: str | None = None) -> None:
        """Started items are done, or dead with ``error``: they wait to leave; no stateful stage waits for them."""
        assert bundle.pipeline is not None, "only started items leave"
        bundle.pipeline.in_flight -= 1
        if error is not None:
            self.pass_gates(self._stateful.from_stage(bundle.next_stage), bundle)
        self._turn.outcomes += self._outbox.put(bundle, error, self._turn.now_s)
        self._stateful.left(self._outbox.next_turn)

    def shed(self, bundles: Iterable[Bundle]) -> None:
        """Items that were never started make room for newer ones."""
        for bundle in bundles:
            self._turn.outcomes += self._outbox.put_shed(bundle, self._turn.now_s)

    def pass_gates(self, stages: Iterable[int], bundle: Bundle) -> None:
        """These stateful stages have seen its items, or never will: the next ones may come."""
        for index in stages:
            self._stateful.gates[index].passed(bundle.turn, bundle.count)
            for pipeline in self._course.pipelines:
                self.dispatch(pipeline.by_stage[index])
