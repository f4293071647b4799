"""Send bundles to workers as tasks, pass them from group to group, and let them leave in order."""

from collections.abc import Iterable, Iterator, Sequence

from compositions.model import Stage
from profiler.snapshot import StageTiming
from runtime.construct import construct_fast
from runtime.dispatch.bundle import Bundle, values_of_part
from runtime.dispatch.events import NO_STATES
from runtime.dispatch.instructions import KeyedTask, SendTask, Task
from runtime.dispatch.keyed.split import Assembly, Piece
from runtime.dispatch.keys import Routes
from runtime.dispatch.outcomes import TaskTimed, Turn
from runtime.dispatch.pipeline import GroupState, Pipeline, WorkerState
from runtime.dispatch.settings import DispatcherSettings
from runtime.dispatch.state import State


def between(count: int, alone: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Split range(count) into consecutive ranges in which each position of ``alone`` is a range by itself."""
    begin = 0
    for position in (*alone, count):
        if begin < position:
            yield begin, position
        if position < count:
            yield position, position + 1
        begin = position + 1


REORDER_BUNDLES = 64
"""Maximum lead of the newest started bundle, in bundles of any size; fewer would leave workers of later groups idle."""


class Entrance:
    """Selects the next bundle of a group, and starts new bundles while there is room for them."""

    def __init__(self, state: State, turn: Turn, settings: DispatcherSettings) -> None:
        self._turn = turn
        self._course = state.course
        self._admission = state.admission
        self._stateful = state.stateful
        self._outbox = state.outbox
        self._reorder_items = settings.reorder_items
        self._started_bytes = settings.started_bytes

    def may_begin(self, group: GroupState) -> bool:
        """Return whether the group may have its next bundle now."""
        if group.waiting:
            bundle = group.waiting[0][1]
            return not group.ordered or self._stateful.open_for(group, bundle.turn, bundle.next_stage)
        if group.index or group.pipeline is not self._course.active or not self._admission.queue:
            return False
        return self._may_start(group)

    def next_bundle(self, group: GroupState) -> Bundle | None:
        """Return the oldest bundle that the group may run: from its queue, or a new one if it is the first group."""
        if not self.may_begin(group):
            return None
        if group.waiting:
            return group.pop()
        pipeline, bundle = group.pipeline, self._admission.start()
        bundle.started_s = self._turn.now_s
        self._outbox.take_turns(bundle)
        bundle.composition = pipeline.composition.name
        pipeline.in_flight += 1
        group.load += 1
        return bundle

    def _may_start(self, group: GroupState) -> bool:
        """Return whether the first group may have a new bundle."""
        active = self._course.active
        if active.in_flight >= active.room or not self._course.may_feed(self._turn.now_s):
            return False
        most_ahead = max(self._reorder_items, REORDER_BUNDLES * self._admission.queue[0].count)
        if self._outbox.room_taken >= most_ahead or not self._outbox.started.has_room(self._started_bytes):
            return False
        return not group.ordered or self._stateful.open_for(group, self._outbox.turns_taken, 0)


class Work:
    """Sends runnable bundles to workers, and passes bundles on when their tasks are over."""

    def __init__(self, state: State, turn: Turn, settings: DispatcherSettings) -> None:
        self._turn = turn
        self._crew = state.crew
        self._tasks = state.tasks
        self._course = state.course
        self._admission = state.admission
        self._stateful = state.stateful
        self._outbox = state.outbox
        entrance = Entrance(state, turn, settings)
        self._may_begin, self._next_bundle = entrance.may_begin, entrance.next_bundle

    # --- out to the workers -----------------------------------------------------------------------------------------

    def feed(self) -> None:
        """Start waiting bundles while the first group may have them."""
        group = self._course.active.groups[0]
        if self._admission.queue or group.waiting or group.keyed or group.apart:
            self.dispatch(group)

    def dispatch(self, group: GroupState) -> None:
        """Send waiting bundles to the group's workers while these have room."""
        if group.apart:
            self._dispatch_apart(group)
        if group.keyed:
            self._dispatch_pieces(group)
            return
        while group.waiting or (self._admission.queue and not group.index):
            if self._admission.refused:
                self._pass_over(group)
            worker = _free_worker(group, self._turn.now_s)
            if worker is None or (bundle := self._next_bundle(group)) is None:
                return
            self._send(worker, group, bundle)
        group.pace.behind_since_s = None

    def dispatch_apart(self) -> None:
        """Dispatch the suspects (bundles that a worker died with), as a suitable worker may be available now."""
        for pipeline in self._course.pipelines:
            for group in pipeline.groups:
                if group.apart:
                    self._dispatch_apart(group)

    def _dispatch_apart(self, group: GroupState) -> None:
        """Dispatch the group's suspects, beside the stream."""
        for bundle in list(group.apart):
            if group.ordered and not self._stateful.open_for(group, bundle.turn, bundle.next_stage):
                continue
            worker = self._crew.for_test(group, self._course.active, again=bundle.trouble.deaths > 1)
            if worker is not None:
                group.apart.remove(bundle)
                self._send(worker, group, bundle)

    def dispatch_keyed(self) -> None:
        """Dispatch again: partitions may have new owners, and bundles that await a fast worker may take another."""
        for pipeline in self._course.pipelines:
            for group in pipeline.groups:
                if group.keyed or group.pace.behind_since_s is not None:
                    self.dispatch(group)

    def waits_for_worker(self, group: GroupState) -> bool:
        """Return whether a worker of the group might start a task now."""
        keys = self._stateful.partitioned[group.first] if group.keyed else None
        return (keys is not None and keys.group is group and keys.waits) or self._may_begin(group)

    def _pass_over(self, group: GroupState) -> None:
        """Turn refused items into dead letters once they are the oldest; stateful stages then do not wait for them."""
        queue, gates, passed = self._admission.queue, self._stateful.gates, False
        while not group.waiting and queue and queue[0].error is not None:
            if (bundle := self._next_bundle(group)) is None:
                break
            passed = True
            group.load -= 1
            group.pipeline.in_flight -= 1
            for gate in gates.values():
                gate.passed(bundle.turn, bundle.count)
            self._turn.outcomes += self._outbox.put(bundle, bundle.error, self._turn.now_s)
            self._stateful.left(self._outbox.oldest_checkpoint_turn)
        for index in gates if passed else ():
            for pipeline in self._course.pipelines:
                if pipeline.by_stage[index] is not group:
                    self.dispatch(pipeline.by_stage[index])

    def _send(self, worker: WorkerState, group: GroupState, bundle: Bundle) -> None:
        states, keyed = NO_STATES, None
        if group.ordered:
            states = self._stateful.needed_by(group, bundle.next_stage)
            keyed = self._stateful.keys_needed_by(group, bundle.next_stage, worker.worker)
        task_id = self._tasks.give(worker, group, bundle, self._turn.now_s)
        group.pace.turn += 1
        stages = group.group.stages
        if bundle.next_stage != group.first:
            stages = group.stages_from(bundle.next_stage)
        task = task_id, bundle.serial, stages, bundle.payload, states, bundle.start, len(bundle.arrived_s), keyed
        self._turn.instructions.append(construct_fast(SendTask, (worker.worker, construct_fast(Task, task))))

    # --- by key -----------------------------------------------------------------------------------------------------

    def _dispatch_pieces(self, group: GroupState) -> None:
        """Send each worker with room the oldest values of its keys; admit new bundles while a worker has room."""
        keys = self._stateful.partitioned[group.first]
        while True:
            if self._admission.refused:
                self._pass_over(group)
            if keys.group is group and group.workers:
                keys.share([each.worker for each in group.workers], [each.worker for each in group.leaving])
                for worker in (*group.workers, *group.leaving):
                    if (
                        _has_room(worker, group, self._crew.short)
                        and (piece := keys.next_piece(worker.worker, self._crew.is_last)) is not None
                    ):
                        self._send_piece(worker, group, piece)
            free = min(group.workers, key=lambda worker: len(worker.outstanding), default=None)
            if (
                free is None
                or not _has_room(free, group, self._crew.short)
                or (bundle := self._next_bundle(group)) is None
            ):
                return
            if bundle.next_stage > group.first:  # the bundle passed the partitioned stage in another composition
                self._send(free, group, bundle)
            else:
                self._enter(group, bundle)

    def _enter(self, group: GroupState, bundle: Bundle) -> None:
        """Let a bundle enter a partitioned stage, as its turn has come."""
        keys = self._stateful.partitioned[group.first]
        routes = bundle.routes or Routes.anywhere(bundle.serial, bundle.count, keys.count)
        assembly = Assembly(bundle, routes)
        keys.enter(assembly, group)
        self._stateful.gates[group.first].passed(bundle.turn, bundle.count)
        if assembly.done:  # the bundle has no values left
            self._finish(group, assembly)
            if not group.pipeline.in_flight:
                self._course.disturb(group.pipeline)

    def _send_piece(self, worker: WorkerState, group: GroupState, piece: Piece) -> None:
        keys, name = self._stateful.partitioned[group.first], group.group.stages[0]
        bundle = piece.assembly.bundle
        picked = None if piece.whole else piece.picked
        behind = _last_piece(worker, group)
        keyed = KeyedTask(picked, {name: keys.begin(worker.worker, piece)}, bundle.routes, behind)
        task_id = self._tasks.give(worker, group, bundle, self._turn.now_s, piece.picked)
        stages, payload = group.group.stages, bundle.payload
        task = Task(task_id, bundle.serial, stages, payload, NO_STATES, bundle.start, bundle.count, keyed)
        self._turn.instructions.append(SendTask(worker.worker, task))

    def piece_over(self, group: GroupState, assembly: Assembly) -> None:
        """Go on after a task of a split bundle has ended, with success or not."""
        if assembly.done:
            self._finish(group, assembly)
        self.dispatch(group)

    def _finish(self, group: GroupState, assembly: Assembly) -> None:
        """Pass on the items of a bundle whose values have all succeeded or failed: onward, or out as dead letters."""
        self._stateful.partitioned[group.first].leave(assembly)
        group.load -= 1
        bundle, dead, pipeline = assembly.bundle, assembly.dead, group.pipeline
        payload, start, size_bytes, routes = assembly.result()
        made = assembly.made
        spans = list(between(bundle.count, sorted(dead)))
        self.part(pipeline, spans)
        for begin, end in spans:
            own = bundle.part(begin, end) if dead else bundle
            if begin in dead:
                self.leave(own, pipeline, dead[begin])
            else:
                self._outbox.started.resize(own, size_bytes * (end - begin) // bundle.count)
                share = values_of_part(made, end - begin, bundle.count)
                own.advance(group.last + 1, payload, share, start + begin, routes and routes.part(begin, end))
                self.route(own, pipeline)
        for each in self._course.pipelines:
            if (other := each.by_stage[group.first]) is not group:
                self.dispatch(other)

    # --- on and out -------------------------------------------------------------------------------------------------

    def route(self, bundle: Bundle, pipeline: Pipeline) -> None:
        """Pass a bundle of ``pipeline`` that is not in work to its next group, or out."""
        if bundle.next_stage == len(pipeline.by_stage):
            self.leave(bundle, pipeline)
            return
        if bundle.made == 0 and pipeline.roaming is not None:
            self._turn.outcomes.append(_passed_by(bundle, pipeline, self._course.stages, self._turn.now_s))
            self.leave(bundle, pipeline)
            return
        if pipeline.migrating:
            pipeline = self._course.migrate(bundle)
        group = pipeline.by_stage[bundle.next_stage]
        group.load += 1
        straight = group.index and group.at_once == 1 and not group.ordered and not group.waiting
        if straight and not bundle.trouble.deaths and (worker := _free_worker(group, self._turn.now_s)) is not None:
            self._send(worker, group, bundle)  # the same as the two calls below, in half the time
            return
        group.put(bundle)
        self.dispatch(group)

    def part(self, pipeline: Pipeline, pieces: Sequence[object]) -> None:
        """Replace a bundle that is not in work by its ``pieces``, which the caller then routes or lets leave."""
        pipeline.in_flight += len(pieces) - 1

    def retry(self, bundle: Bundle, pipeline: Pipeline, error: str, *, hopeless: bool) -> None:
        """Run a bundle again after a failed task; if ``hopeless``, turn it into a dead letter instead."""
        if hopeless:
            self.leave(bundle, pipeline, error)
        else:
            self.route(bundle, pipeline)

    def leave(self, bundle: Bundle, pipeline: Pipeline, error: str | None = None) -> None:
        """Move finished items, or failed ones with ``error``, to the outbox; stateful stages wait no longer."""
        pipeline.in_flight -= 1
        if bundle.next_stage < len(pipeline.by_stage):
            self.pass_gates([index for index in self._stateful.gates if index >= bundle.next_stage], bundle)
        self._turn.outcomes += self._outbox.put(bundle, error, self._turn.now_s)
        self._stateful.left(self._outbox.oldest_checkpoint_turn)

    def shed(self, bundles: Iterable[Bundle]) -> None:
        """Drop items that were never started, to make room for newer ones."""
        for bundle in bundles:
            self._turn.outcomes += self._outbox.put_shed(bundle, self._turn.now_s)

    def pass_gates(self, stages: Iterable[int], bundle: Bundle) -> None:
        """Let the next items pass at ``stages``, which have seen the bundle's items or never will."""
        for index in stages:
            self._stateful.gates[index].passed(bundle.turn, bundle.count)
            for pipeline in self._course.pipelines:
                self.dispatch(pipeline.by_stage[index])


def _free_worker(group: GroupState, now_s: float) -> WorkerState | None:
    worker = group.free_worker()
    return worker if worker is None or group.pace.fast_s is None else group.preferred(worker, now_s)


def _has_room(worker: WorkerState, group: GroupState, short: bool) -> bool:
    """Return whether a worker of the group may get a piece: it has no task, or one that a second can be sent behind, to
    save the wait for a message. Workers that may move to another group (all, if ``short``) get no second task."""
    if not worker.outstanding:
        return True
    if short or group.pipeline.roaming is not None or worker in group.leaving:
        return False
    return _last_piece(worker, group) is not None


def _last_piece(worker: WorkerState, group: GroupState) -> int | None:
    """Return the task that a piece for the group may be sent behind, or None. The task must be the worker's only one
    and a piece for the same group, and no piece before it may have failed."""
    if len(worker.outstanding) != 1:
        return None
    only = worker.outstanding[0]
    return None if only.picked is None or only.void or only.group is not group else only.task_id


def _passed_by(bundle: Bundle, pipeline: Pipeline, stages: Sequence[Stage], now_s: float) -> TaskTimed:
    """Return timings of 0 s in the remaining stages, for a bundle without values. The bundle needs no worker, as in the
    paper, where a filtered tuple is in no worklist; profiles, which are means over items, still count its items."""
    timings = tuple(StageTiming(stage.name, 0.0, 0.0) for stage in stages[bundle.next_stage :])
    return TaskTimed(now_s, pipeline.composition.name, timings, None, 0, bundle.serial, bundle.count)
