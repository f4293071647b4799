"""Checkpoints of stages that keep states: those that the items which are out left, and no other."""

from __future__ import annotations

import pytest

from compositions.model import Composition, Group, Pattern, Stage, StageKind
from runtime.dispatch.checkpoint import BEGINNING, Checkpoint
from runtime.dispatch.dispatcher import Dispatcher
from runtime.dispatch.events import BundleAdmitted, Event, ItemFault, KeyedDone, TaskDone, WorkerJoined
from runtime.dispatch.instructions import SendTask, Task
from runtime.dispatch.ledger import Change, Ledger
from runtime.dispatch.routes import Routes
from runtime.dispatch.settings import DispatcherSettings


def test_of_a_key_the_last_state_of_what_is_out_is_told_once():
    ledger = Ledger()
    ledger.note(Change(2, 4, "sum", {0: {"a": b"2"}}))
    ledger.note(Change(0, 2, "sum", {1: {"b": b"1"}}))
    ledger.note(Change(4, 6, "sum", {0: {"a": b"3"}, 1: {"b": None}}))
    ledger.left(4)
    assert ledger.take() == {"sum": {0: {"a": b"2"}, 1: {"b": b"1"}}}
    assert ledger.take() == {}
    assert [ledger.cut(turn) for turn in (4, 5, 6)] == [False, True, False]
    ledger.left(6)
    assert ledger.take() == {"sum": {0: {"a": b"3"}, 1: {"b": None}}}


@pytest.mark.parametrize("kind", [StageKind.STATEFUL, StageKind.PARTITIONED])
def test_while_a_part_of_a_bundle_is_out_nobody_says_what_state_it_left(kind: StageKind):
    stages = (
        Stage("keeps", kind, partitions=2) if kind is StageKind.PARTITIONED else Stage("keeps", kind),
        Stage("on"),
    )
    groups = tuple(Group((stage.name,), Pattern.SEQ, 1) for stage in stages)
    dispatcher = Dispatcher(
        stages, Composition("", groups), DispatcherSettings(spares=0), begin=BEGINNING, validate=True
    )
    dispatcher.start(0.0)
    tasks: list[tuple[str, Task]] = []

    def handle(event: Event) -> None:
        tasks.extend((each.worker, each.task) for each in dispatcher.handle(event)[0] if isinstance(each, SendTask))

    def done(**more: object) -> None:
        worker, task = tasks.pop()
        handle(TaskDone(0.0, worker, task.task_id, [1, 2][: task.items], **more))

    handle(WorkerJoined(0.0, "p"))
    handle(WorkerJoined(0.0, "q"))
    handle(BundleAdmitted(0.0, (0.0, 0.0), [1, 2], None, Routes(b"\0\0")))
    changes = {"keeps": {0: {"key": b"3"}}}
    done(**({"states": {"keeps": b"3"}} if kind is StageKind.STATEFUL else {"keyed": KeyedDone(None, changes)}))
    assert dispatcher.checkpoint(0) == Checkpoint()
    done(faults=(ItemFault(1, "on", "told to fail"),))
    assert dispatcher.checkpoint(1) is None, "the state has seen the second item, which is not out"
    assert dispatcher.checkpoint(2) is None, "it is not out"
    done()
    states = {"keeps": b"3"} if kind is StageKind.STATEFUL else {}
    assert dispatcher.checkpoint(2) == Checkpoint(2, 0, 0, states, {} if states else changes)
