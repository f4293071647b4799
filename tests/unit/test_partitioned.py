"""Partitioned stages in the dispatcher: who has which partition, what is kept of it, and when it moves."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from compositions.model import Composition, Group, Pattern, Stage, StageKind
from runtime.dispatch.assembly import Assembly, marked
from runtime.dispatch.dispatcher import Dispatcher
from runtime.dispatch.event_log import DispatcherError
from runtime.dispatch.events import BundleAdmitted, Change, Event, KeyedDone, SwitchRequested, TaskDone, WorkerJoined
from runtime.dispatch.instructions import SendTask, Task
from runtime.dispatch.outcomes import Delivered, Outcome
from runtime.dispatch.partitions import LEAST_BYTES, Kept, Partitions
from runtime.dispatch.pipeline import Bundle
from runtime.dispatch.plain import Blob, Reader, Writer
from runtime.dispatch.routes import Routes
from runtime.dispatch.settings import DispatcherSettings

BY = Stage("by", StageKind.PARTITIONED, partitions=2)


def workers(count: int) -> Composition:
    return Composition(str(count), (Group(("by",), Pattern.PAR, count),))


class Bench:
    def __init__(self, count: int) -> None:
        self.dispatcher = Dispatcher((BY,), workers(count), DispatcherSettings(spares=0), validate=True)
        self.dispatcher.start(0.0)
        self.tasks: dict[str, Task] = {}
        self.out: list[Outcome] = []
        for number in range(count):
            self.handle(WorkerJoined(0.0, f"w{number}"))

    def handle(self, event: Event) -> None:
        instructions, outcomes = self.dispatcher.handle(event)
        self.out += outcomes
        self.tasks.update({each.worker: each.task for each in instructions if isinstance(each, SendTask)})

    def admit(self, *partitions: int) -> None:
        payload, count = list(partitions), len(partitions)
        self.handle(BundleAdmitted(0.0, (0.0,) * count, payload, None, Routes(bytes(partitions))))

    def done(self, worker: str, blob: bytes = b"new") -> None:
        task = self.tasks.pop(worker)
        values = [value for value, mine in zip(task.payload, self.picked(task), strict=True) if mine]
        changes = {"by": {partition: Change(False, blob) for partition in set(values)}}
        self.handle(TaskDone(0.0, worker, task.task_id, values, keyed=KeyedDone(None, changes)))

    def picked(self, task: Task) -> bytes:
        return task.keyed.picked if task.keyed and task.keyed.picked else b"\1" * task.items


def test_a_bundle_is_cut_by_owners_and_put_together_again():
    bench = Bench(2)
    bench.admit(0, 1, 1, 0)
    assert sorted(bench.picked(task) for task in bench.tasks.values()) == [b"\0\1\1\0", b"\1\0\0\1"]
    for worker in list(bench.tasks):
        bench.done(worker)
    [out] = [each for each in bench.out if isinstance(each, Delivered)]
    assert out.payload.in_order(out.payload.parts) == [0, 1, 1, 0]


def test_a_partition_in_work_moves_when_its_task_is_over_and_brings_what_is_kept():
    bench = Bench(2)
    bench.admit(0, 1)
    owner = {bench.tasks[worker].payload[bench.picked(bench.tasks[worker]).index(1)]: worker for worker in bench.tasks}
    bench.admit(0, 1)
    bench.handle(SwitchRequested(0.0, workers(1)))
    stays = next(w.worker for w in bench.dispatcher.view(0.0).workers if w.group is not None)
    (leaves,) = {"w0", "w1"} - {stays}
    moving = next(partition for partition, worker in owner.items() if worker == leaves)
    bench.done(stays)
    assert moving not in [v for v, p in zip([0, 1], bench.picked(bench.tasks[stays]), strict=True) if p]
    bench.done(stays)
    assert stays not in bench.tasks
    bench.done(leaves, b"last word")
    assert bench.tasks[stays].keyed.kept == {"by": {moving: (b"last word",)}}
    bench.done(stays)
    assert sum(each.count for each in bench.out if isinstance(each, Delivered)) == 4


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


def test_partitions_are_shared_out_in_turns_and_those_in_work_are_not_to_be_had():
    keys = Partitions(6)
    keys.share(["a", "b"])
    assert keys.owners[:2] != [keys.owners[0]] * 2
    assert sum(keys.owned.values()) == marked(range(6))
    assert keys.owned == {worker: marked([i for i in range(6) if keys.owners[i] == worker]) for worker in "ab"}
    assembly = Assembly(Bundle(0, (0.0,) * 3, None), Routes(bytes([0, 1, 0])))
    keys.enter(assembly, None)
    piece = keys.next_piece(keys.owners[0])
    assert piece.picked == b"\1\0\1"
    assert assembly.wanted == marked([1])
    keys.begin(keys.owners[0], piece)
    assembly.again(piece)
    assert assembly.wanted == marked([0, 1])
    assert keys.next_piece(keys.owners[0]) is None
    keys.end(piece)
    assert keys.next_piece(keys.owners[0]).picked == b"\1\0\1"


def test_a_snapshot_is_wanted_when_the_changes_take_half_as_much():
    kept = Kept()
    kept.commit(Change(True, bytes(4 * LEAST_BYTES)))
    kept.commit(Change(False, bytes(2 * LEAST_BYTES)))
    assert not kept.outgrown
    kept.commit(Change(False, b"more"))
    assert kept.outgrown
    kept.commit(Change(True, b"all"))
    assert (kept.blobs, kept.outgrown) == ([b"all"], False)


def test_what_is_kept_is_written_to_a_log_as_sizes_alone():
    kept = Kept()
    for blob in (b"snap", b"a", b"bc"):
        kept.commit(Change(blob == b"snap", blob))
    plain = json.loads(json.dumps(Writer(len).plain(kept)))
    assert plain["blobs"] == {"$": "blobs", "sizes": [4, 1, 2]}
    read = Reader().value(plain)
    assert ([len(each) for each in read.blobs], read.changes_bytes) == ([4, 1, 2], 3)
    read.commit(Change(False, Blob(9)))
    assert Writer(len).plain(read)["blobs"]["sizes"] == [4, 1, 2, 9]


def test_who_has_lost_a_partition_is_told_to_forget_it_with_the_next_task():
    keys = Partitions(2)
    assert keys.lend("a", [0, 1]) == {0: (), 1: ()}
    keys.commit({0: Change(False, b"zero"), 1: Change(False, b"one")})
    assert keys.lend("b", [1]) == {1: (b"one",)}
    assert keys.lend("a", [0]) == {1: ()}
    assert keys.lend("a", [0]) == {}
    assert keys.lend("a", [1]) == {1: (b"one",)}
    assert keys.lend("b", []) == {1: ()}


def test_a_piece_changes_no_partition_but_its_own():
    bench = Bench(2)
    bench.admit(0, 1)
    worker, task = next((each, task) for each, task in bench.tasks.items() if bench.picked(task) == b"\1\0")
    assert task.keyed.routes == Routes(b"\0\1")
    stolen = KeyedDone(None, {"by": {1: Change(False, b"stolen")}})
    with pytest.raises(DispatcherError, match="changes of \\[1\\]"):
        bench.handle(TaskDone(0.0, worker, task.task_id, [0], keyed=stolen))


def test_who_still_has_a_piece_gets_nothing_of_a_group_whose_calls_wait_until_it_is_over():
    stages = (BY, Stage("ask", concurrency=4), Stage("tell", concurrency=4))

    def split(first: int, second: int) -> Composition:
        named = (("by", "ask"), first), (("tell",), second)
        groups = [Group(names, Pattern.PAR if count > 1 else Pattern.SEQ, count) for names, count in named]
        return Composition(f"{first}{second}", tuple(groups))

    bench = Bench(0)
    bench.dispatcher = Dispatcher(stages, split(2, 1), DispatcherSettings(spares=0), validate=True)
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
