"""Partitioned stages in the dispatcher: who has which partition, what is kept of it, and when it moves."""

import json
from collections import Counter, defaultdict, deque

import pytest

from compositions.dynamic import Dyn
from compositions.model import Composition, Group, Pattern, Stage, StageKind
from compositions.rules import groups_of_dyn
from lab.simulation.invariants import CheckedDispatcher
from runtime.dispatch.bundle import Bundle
from runtime.dispatch.event_log import DispatcherError, Writer
from runtime.dispatch.events import (
    BundleAdmitted,
    Event,
    KeyedDone,
    SwitchRequested,
    TaskDone,
    TaskFailed,
    Tick,
    WorkerAnswered,
    WorkerJoined,
    WorkerLost,
)
from runtime.dispatch.instructions import SendTask, Task
from runtime.dispatch.keyed.partitions import Partitions
from runtime.dispatch.keyed.split import Assembly
from runtime.dispatch.keys import Routes
from runtime.dispatch.outcomes import Delivered, Outcome
from runtime.dispatch.settings import DispatcherSettings
from tests.support.replay import Reader

BY = Stage("by", StageKind.PARTITIONED, partitions=2)


def workers(count: int) -> Composition:
    return Composition(str(count), (Group(("by",), Pattern.PAR, count),))


class Bench:
    def __init__(self, count: int, losses: int = 3, dyn: bool = False) -> None:
        settings = DispatcherSettings(spares=0, losses=losses)
        composition = workers(count)
        if dyn:
            composition = Composition("Dyn", groups_of_dyn((BY,), count), dyn=Dyn(count, "lp"))
        self.dispatcher = CheckedDispatcher((BY,), composition, settings)
        self.dispatcher.start(0.0)
        self.waiting: dict[str, deque[Task]] = defaultdict(deque)
        self.out: list[Outcome] = []
        for number in range(count):
            self.handle(WorkerJoined(0.0, f"w{number}"))

    def handle(self, event: Event) -> None:
        instructions, outcomes = self.dispatcher.handle(event)
        self.out += outcomes
        for each in instructions:
            if isinstance(each, SendTask):
                self.waiting[each.worker].append(each.task)

    @property
    def tasks(self) -> dict[str, Task]:
        return {worker: tasks[0] for worker, tasks in self.waiting.items() if tasks}

    def admit(self, *partitions: int) -> None:
        payload, count = list(partitions), len(partitions)
        self.handle(BundleAdmitted(0.0, (0.0,) * count, payload, None, Routes(bytes(partitions))))

    def done(self, worker: str, blob: bytes = b"new") -> None:
        task = self.waiting[worker].popleft()
        values = [value for value, mine in zip(task.payload, self.picked(task), strict=True) if mine]
        changes = {"by": {partition: {f"key {partition}": blob} for partition in set(values)}}
        self.handle(TaskDone(0.0, worker, task.task_id, values, keyed=KeyedDone(None, changes)))

    def picked(self, task: Task) -> bytes:
        return task.keyed.picked if task.keyed and task.keyed.picked else b"\1" * task.items


def test_a_value_goes_from_dead_to_dead_at_the_price_of_one_loss():
    bench = Bench(4, losses=2)
    bench.admit(1)
    for second in (1.0, 2.0, 3.0):
        (worker,) = bench.tasks
        del bench.waiting[worker]
        bench.handle(WorkerLost(second, worker, "its machine is gone"))
    (worker,) = bench.tasks
    bench.handle(WorkerAnswered(3.1, worker, 3))
    assert not [each for each in bench.out if isinstance(each, Delivered)]
    bench.handle(WorkerLost(4.0, worker, "SIGKILL"))
    (dead,) = (each for each in bench.out if isinstance(each, Delivered))
    assert dead.error == f"worker {worker} was lost: SIGKILL"


def test_a_partition_in_work_moves_when_its_task_is_over_and_brings_what_is_kept():
    bench = Bench(2)
    bench.admit(0, 1)
    owner = {bench.tasks[worker].payload[bench.picked(bench.tasks[worker]).index(1)]: worker for worker in bench.tasks}
    bench.admit(0, 1)
    bench.admit(0, 1)
    bench.handle(SwitchRequested(0.0, workers(1)))
    stays = next(w.worker for w in bench.dispatcher.view(0.0).workers if w.group is not None)
    (leaves,) = {"w0", "w1"} - {stays}
    moving = next(partition for partition, worker in owner.items() if worker == leaves)
    for _ in range(3):
        assert moving not in [v for v, p in zip([0, 1], bench.picked(bench.tasks[stays]), strict=True) if p]
        bench.done(stays)
    assert stays not in bench.tasks
    bench.done(leaves, b"first word")
    assert stays not in bench.tasks, "its owner of old has another bundle of it"
    bench.done(leaves, b"last word")
    assert bench.tasks[stays].keyed.kept == {"by": {moving: {f"key {moving}": b"last word"}}}
    bench.done(stays)
    assert sum(each.count for each in bench.out if isinstance(each, Delivered)) == 6


def test_a_worker_has_the_next_piece_while_it_is_at_one_and_no_more():
    bench = Bench(2)
    for _ in range(3):
        bench.admit(0, 1)
    pieces = [each.items for each in bench.dispatcher.view(0.0).pending["by"]]
    assert pieces == [1] * 4, "what waits as a piece counts as one in a drain"
    for first, second in bench.waiting.values():
        assert first.keyed.behind is None
        assert second.keyed.behind == first.task_id
        assert second.keyed.kept == {"by": {}}, "what is kept would bring it back to what was before the first"
    for worker in ("w0", "w1", "w0", "w1"):
        bench.done(worker)
    assert sum(each.count for each in bench.out if isinstance(each, Delivered)) == 4
    assert [len(tasks) for tasks in bench.waiting.values()] == [1, 1]


def test_what_was_sent_behind_a_piece_that_fails_comes_back_without_blame_and_after_it():
    dynamic = Bench(1, dyn=True)
    bench = Bench(1)
    for each in (bench, dynamic):
        each.admit(0, 1)
        each.admit(1, 0)
    assert len(dynamic.waiting["w0"]) == 1, "who chooses among groups has one piece"
    first, second = bench.waiting["w0"]
    bench.waiting["w0"].popleft()
    bench.handle(TaskFailed(0.0, "w0", first.task_id, "by", "told to fail", 1))
    assert list(bench.waiting["w0"]) == [second], "nothing new as long as it may be refused"
    bench.waiting["w0"].popleft()
    bench.handle(TaskFailed(0.0, "w0", second.task_id, "by", "not run", None))
    order = []
    for _ in range(3):
        task = bench.tasks["w0"]
        order.append((task.serial, bench.picked(task)))
        bench.done("w0")
    assert order == [(0, b"\1\0"), (0, b"\0\1"), (2, b"\1\1")], "the second is whole: nothing is held against it"
    assert sum(each.count for each in bench.out if isinstance(each, Delivered)) == 4


def test_of_a_lost_worker_what_it_ran_is_blamed_and_what_it_had_behind_that_is_not():
    bench = Bench(1, losses=1)
    bench.admit(0)
    bench.admit(0)
    assert len(bench.waiting.pop("w0")) == 2
    bench.handle(WorkerLost(1.0, "w0", "SIGKILL"))
    bench.handle(WorkerJoined(1.0, "w1"))
    assert [task.serial for task in bench.waiting["w1"]] == [1]
    bench.done("w1")
    assert [each.error for each in bench.out if isinstance(each, Delivered)] == ["worker w0 was lost: SIGKILL", None]


def assembled(*partitions: int, first: int = 0) -> Assembly:
    return Assembly(Bundle(first, (0.0,) * len(partitions), None), Routes(bytes(partitions)))


def owned(keys: Partitions, worker: str) -> list[int]:
    return [each for each, owner in enumerate(keys.owners) if owner == worker]


def with_states(count: int, *workers: str) -> Partitions:
    """Partitions of which each has a state, and its owner knows it."""
    keys = Partitions(count)
    keys.share(workers)
    for worker in workers:
        keys.lend(worker, owned(keys, worker))
    keys.commit({each: {each: b"state"} for each in range(count)})
    return keys


def test_only_those_partitions_move_that_must():
    keys = Partitions(64)
    keys.share(["a", "b", "c"])
    keys.holders = before = list(keys.owners)
    assert sorted(Counter(before).values()) == [21, 21, 22]
    keys.share(["a", "b", "c", "d"])
    moved = [now for was, now in zip(before, keys.owners, strict=True) if was != now]
    assert moved == ["d"] * 16
    keys.share(["a", "b", "d"])
    assert sorted(Counter(keys.owners).values()) == [21, 21, 22]


def test_what_is_kept_is_the_last_state_of_each_key_and_a_log_has_none_of_it():
    keys = Partitions(2)
    keys.commit({0: {"a": b"secret", "b": b"one"}, 1: {"c": b"two"}})
    keys.commit({0: {"a": b"hidden", "b": None, "d": None}})
    assert [keys.kept.of(each) for each in range(2)] == [{"a": b"hidden"}, {"c": b"two"}]
    plain = json.dumps(Writer(len).plain(keys))
    assert not any(text in plain for text in ("secret", "hidden", "two"))
    read = Reader().value(json.loads(plain))
    assert (len(read.kept), read.kept.count, read.known) == (0, 2, {0, 1})


def test_partitions_with_states_move_step_by_step_while_their_owner_is_there():
    keys = with_states(128, "a")
    keys.share(["a", "b"])
    moved = owned(keys, "b")
    assert len(moved) == 2
    keys.share(["a", "b"])
    assert owned(keys, "b") == moved, "those before are on their way"
    for _ in range(31):
        keys.lend("b", owned(keys, "b"))
        keys.share(["a", "b"])
    assert Counter(keys.owners) == {"a": 64, "b": 64}
    assert not keys.moving
    keys.share(["b"])
    assert keys.owners == ["b"] * 128, "who has left has none"


def test_who_leaves_a_group_keeps_its_partitions_until_they_have_moved_step_by_step():
    keys = with_states(64, "a", "b")
    for left in range(31, -1, -1):
        keys.share(["a"], ["b"])
        assert Counter(keys.owners)["b"] == left
        keys.lend("a", owned(keys, "a"))
    assert (keys.owned.keys(), keys.moving, keys.needs("b")) == ({"a"}, {}, False)
    keys.share(["a", "c"], ["b"])
    assert "b" not in [*keys.moving.values(), *keys.owners], "who leaves gets none"


def test_a_leaving_worker_ends_what_is_its_own_comes_back_when_wanted_and_leaves_when_nothing_comes():
    bench = Bench(2)
    for _ in range(2):
        bench.admit(0, 1)
        for worker in list(bench.tasks):
            bench.done(worker)
    group = bench.dispatcher._state.course.active.groups[0]
    bench.handle(SwitchRequested(0.0, workers(1)))
    (stays,), (leaves,) = group.workers, group.leaving
    bench.admit(0, 1)
    owned = {worker: bench.picked(task).count(1) for worker, task in bench.tasks.items()}
    assert sum(owned.values()) == 2, "nobody waits for states that move"
    bench.handle(SwitchRequested(0.0, workers(2)))
    assert (group.leaving, set(map(id, group.workers))) == ([], {id(stays), id(leaves)})
    for worker in list(bench.tasks):
        bench.done(worker)
    bench.handle(SwitchRequested(0.0, workers(1)))
    assert len(group.leaving) == 1
    bench.handle(Tick(0.5))
    assert len(group.leaving) == 1
    bench.handle(Tick(1.5))
    assert (group.leaving, len(group.workers)) == ([], 1)


def test_keys_that_come_no_more_hold_up_no_partition_that_is_to_move():
    keys = with_states(64, "a")
    keys.share(["a", "b"])
    of_a = [each for each in owned(keys, "a") if each in keys.moving]
    (first,) = owned(keys, "b")
    for _ in range(len(of_a)):
        assembly = assembled(*of_a[-2:])
        keys.enter(assembly, None)
        keys.share(["a", "b"])
        for worker in "ab":
            if (piece := keys.next_piece(worker)) is not None:
                keys.begin(worker, piece)
                assembly.put(piece, None, 0, None, 1)
                keys.end(piece)
        keys.leave(assembly)
    keys.share(["a", "b"])
    assert keys.holders[first] == "a", "none of its keys came"
    assert Counter(keys.owners) == {"a": 32, "b": 32}
    assert not keys.moving


def test_a_task_brings_a_part_of_the_states_and_the_values_of_the_others_come_after_it_in_order():
    keys = Partitions(32)
    keys.share(["a"])
    keys.commit({each: {each: b"state"} for each in range(32)})
    first, later = assembled(9, 5, 9, 7), assembled(7, 9, first=4)
    for each in (first, later):
        keys.enter(each, None)
    pieces = []
    while (piece := keys.next_piece("a")) is not None:
        assert len(keys.begin("a", piece)) <= 2
        keys.end(piece)
        pieces.append((piece.assembly, piece.picked))
    assert pieces == [(first, b"\0\1\0\1"), (first, b"\1\0\1\0"), (later, b"\1\1")]


def test_who_has_lost_a_partition_is_told_to_forget_it_with_the_next_task():
    keys = Partitions(2)
    assert keys.lend("a", [0, 1]) == {0: {}, 1: {}}
    keys.commit({0: {"x": b"zero"}, 1: {"y": b"one"}})
    assert keys.lend("b", [1]) == {1: {"y": b"one"}}
    assert keys.lend("a", [0]) == {1: {}}
    assert keys.lend("a", [0]) == {}
    assert keys.lend("a", [1]) == {1: {"y": b"one"}}
    assert keys.lend("b", []) == {1: {}}


def test_a_piece_changes_no_partition_but_its_own():
    bench = Bench(2)
    bench.admit(0, 1)
    worker, task = next((each, task) for each, task in bench.tasks.items() if bench.picked(task) == b"\1\0")
    assert task.keyed.routes == Routes(b"\0\1")
    stolen = KeyedDone(None, {"by": {1: {"key": b"stolen"}}})
    with pytest.raises(DispatcherError, match="changes of \\[1\\]"):
        bench.handle(TaskDone(0.0, worker, task.task_id, [0], keyed=stolen))


def test_who_still_has_a_piece_gets_nothing_of_a_group_whose_calls_wait_until_it_is_over():
    stages = (BY, Stage("ask", concurrency=4), Stage("tell", concurrency=4))

    def split(first: int, second: int) -> Composition:
        named = (("by", "ask"), first), (("tell",), second)
        groups = [Group(names, Pattern.PAR if count > 1 else Pattern.SEQ, count) for names, count in named]
        return Composition(f"{first}{second}", tuple(groups))

    bench = Bench(0)
    bench.dispatcher = CheckedDispatcher(stages, split(2, 1), DispatcherSettings(spares=0))
    bench.dispatcher.start(0.0)
    for worker in "pqr":
        bench.handle(WorkerJoined(0.0, worker))
    bench.admit(0, 1)
    owners = {worker: bench.picked(task).index(1) for worker, task in bench.tasks.items()}
    bench.handle(SwitchRequested(0.0, split(1, 2)))
    moved = next(w.worker for w in bench.dispatcher.view(0.0).workers if w.worker in owners and w.group == 1)
    (stays,) = owners.keys() - {moved}
    piece = bench.tasks[moved]
    for _ in range(4):
        bench.admit(owners[stays], owners[stays])
    while stays in bench.tasks:
        bench.done(stays)
    assert bench.tasks[moved] is piece
    bench.done(moved)
    assert bench.tasks[moved].stages == ("tell",)
