"""Checkpoints of stages that keep states: those that the items which are out left, and no other."""

import pytest

from compositions.model import Composition, Group, Pattern, Stage, StageKind
from lab.simulation.invariants import CheckedDispatcher
from runtime.dispatch.checkpoint import BEGINNING, Change, Checkpoint, Ledger
from runtime.dispatch.events import BundleAdmitted, Event, ItemFault, KeyedDone, TaskDone, WorkerJoined
from runtime.dispatch.instructions import SendTask, Task
from runtime.dispatch.keys import Routes
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


class Keeping:
    """A stage that keeps states, and one behind it: bundles of two, each seen together by the first."""

    def __init__(self, kind: StageKind) -> None:
        keeps = Stage("keeps", kind, partitions=2) if kind is StageKind.PARTITIONED else Stage("keeps", kind)
        groups = (Group(("keeps",), Pattern.SEQ, 1), Group(("on",), Pattern.PAR, 2))
        settings = DispatcherSettings(spares=0)
        stages = (keeps, Stage("on"))
        self.kind = kind
        self.dispatcher = CheckedDispatcher(stages, Composition("", groups), settings, begin=BEGINNING)
        self.dispatcher.start(0.0)
        self.tasks: dict[tuple[str, int], list[tuple[str, Task]]] = {}
        for worker in ("p", "q", "r"):
            self.handle(WorkerJoined(0.0, worker))

    def handle(self, event: Event) -> None:
        for each in self.dispatcher.handle(event)[0]:
            if isinstance(each, SendTask):
                self.tasks.setdefault((each.task.stages[0], each.task.serial), []).append((each.worker, each.task))

    def admit(self) -> None:
        self.handle(BundleAdmitted(0.0, (0.0, 0.0), [1, 2], None, Routes(b"\0\0")))

    def done(self, stage: str, serial: int, **more: object) -> None:
        worker, task = self.tasks[stage, serial].pop(0)
        self.handle(TaskDone(0.0, worker, task.task_id, [1, 2][: task.items], **more))

    def kept(self, serial: int) -> None:
        """The bundle of these items leaves its first serial number as the state."""
        state = b"%d" % serial
        stateful = self.kind is StageKind.STATEFUL
        told = {"states": {"keeps": state}} if stateful else {"keyed": KeyedDone(None, {"keeps": {0: {"key": state}}})}
        self.done("keeps", serial, **told)

    def is_tried_again(self, serial: int) -> None:
        """The second one of these two."""
        self.done("on", serial, faults=(ItemFault(1, "on", "told to fail"),))

    def as_of(self, left: int, serial: int) -> Checkpoint:
        """So many have left, and the state is that of the bundle of that serial number."""
        state = b"%d" % serial
        stateful = self.kind is StageKind.STATEFUL
        return (
            Checkpoint(left, states={"keeps": state})
            if stateful
            else Checkpoint(left, keyed={"keeps": {0: {"key": state}}})
        )


KINDS = pytest.mark.parametrize("kind", [StageKind.STATEFUL, StageKind.PARTITIONED])


@KINDS
def test_while_a_part_of_a_bundle_is_out_nobody_says_what_state_it_left(kind: StageKind):
    run = Keeping(kind)
    run.admit()
    run.kept(0)
    assert run.dispatcher.checkpoint(0) == Checkpoint()
    run.is_tried_again(0)
    assert run.dispatcher.checkpoint(1) == Checkpoint(), "the state has seen the second item, which is not out"
    assert run.dispatcher.checkpoint(2) is None, "it is not out"
    run.done("on", 1)
    assert run.dispatcher.checkpoint(2) == run.as_of(2, 0)


@KINDS
def test_where_an_item_of_every_bundle_is_tried_again_there_is_a_checkpoint_behind_each(kind: StageKind):
    """The next bundle has come as far before it is done, so that never all items of the last one are out alone."""
    run = Keeping(kind)
    run.admit()
    run.kept(0)
    run.is_tried_again(0)
    for first in range(2, 20, 2):
        run.admit()
        run.kept(first)
        run.is_tried_again(first)
        run.done("on", first - 1)
        assert run.dispatcher.checkpoint(first + 1) == run.as_of(first, first - 2), "one is out of the next bundle"
