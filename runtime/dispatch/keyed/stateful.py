"""Stages that keep a state: each sees the started items in order. A stateful stage gets the state after the previous
item; the states of a partitioned stage stay with its workers (:mod:`runtime.dispatch.keyed.partitions`)."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from compositions.model import Stage, StageKind
from runtime.dispatch.checkpoint import BEGINNING, Change, Checkpoint, Ledger, StageStates
from runtime.dispatch.events import TaskDone, WorkerId
from runtime.dispatch.instructions import KeyedTask
from runtime.dispatch.keyed.partitions import Partitions
from runtime.dispatch.keys import Payload
from runtime.dispatch.outbox import OrderGate
from runtime.dispatch.pipeline import GroupState, TaskInWork


@dataclass(frozen=True, slots=True)
class Version:
    """A state after the items before ``turn``; a single task ran the items from ``begin`` on."""

    begin: int
    turn: int
    payload: Payload


class StatefulStages:
    """The stages that keep a state: their gates by index of the stage, in the app's order; their states by name."""

    def __init__(self, stages: Sequence[Stage], begun: Checkpoint | None = None) -> None:
        """``begun``: the checkpoint to continue from; None: no checkpoints will be taken."""
        begin = begun or BEGINNING
        ordered = [index for index, stage in enumerate(stages) if stage.keeps_state]
        self.gates = {index: OrderGate(begin.next_turn) for index in ordered}
        self.states: dict[str, Payload] = dict(begin.states)
        self._versions = {
            name: deque([Version(begin.next_turn, begin.next_turn, state)]) for name, state in begin.states.items()
        }
        """By stage, the oldest first: the state after the items that have left, then the states after later items."""
        self.partitioned = {
            index: Partitions(stage.partitions, begin.keyed.get(stage.name, {}))
            for index, stage in enumerate(stages)
            if stage.kind is StageKind.PARTITIONED
        }
        self.ledger = Ledger() if begun is not None and self.partitioned else None
        """The changes of key states since the last checkpoint; None if no checkpoints are taken or none has keys."""
        self._told_turn = begin.next_turn
        """The turn at which the latest checkpoint ended."""
        self._names = tuple(stage.name for stage in stages)

    def open_for(self, group: GroupState, turn: int, next_stage: int) -> bool:
        """Return whether ``turn`` is the next at every state-keeping stage of the group from ``next_stage`` on, and no
        split bundle of another composition is there."""
        for index in group.ordered:
            if index >= next_stage:
                if turn != self.gates[index].expected:
                    return False
                keys = self.partitioned.get(index)
                if keys is not None and keys.group not in (None, group):
                    return False
        return True

    def needed_by(self, group: GroupState, next_stage: int) -> dict[str, Payload]:
        """Return the states of stateful stages that a task of the group needs from ``next_stage`` on."""
        names = [self._names[index] for index in self._run(group, next_stage) if index not in self.partitioned]
        return {name: self.states.get(name) for name in names}

    def keys_needed_by(self, group: GroupState, next_stage: int, worker: WorkerId) -> KeyedTask | None:
        """Return the states that ``worker`` lacks for a task on all partitions; None without a partitioned stage."""
        kept = {}
        for index in self._run(group, next_stage):
            if (keys := self.partitioned.get(index)) is not None:
                every = range(keys.count)
                kept[self._names[index]] = keys.lend(worker, every)
        return KeyedTask(None, kept) if kept else None

    def commit(self, done: TaskDone, task: TaskInWork) -> None:
        """Store the new states that came with a result."""
        bundle = task.bundle
        end = bundle.turn + bundle.count
        self.states.update(done.states)
        for name, state in done.states.items():
            self._versions.setdefault(name, deque()).append(Version(bundle.turn, end, state))
        for name, changes in done.keyed.changes.items():
            keys = self.partitioned[self._names.index(name)]
            if task.picked is not None:
                own = keys.piece(bundle, task.picked).partitions
                assert changes.keys() <= set(own), f"of partitions {list(own)} came changes of {sorted(changes)}"
            keys.commit(changes)
            if self.ledger is not None and changes:
                self.ledger.note(Change(bundle.turn, end, name, changes))

    def lose(self, worker: WorkerId) -> None:
        for keys in self.partitioned.values():
            keys.lose(worker)

    def _run(self, group: GroupState, next_stage: int) -> list[int]:
        return [index for index in group.ordered if index >= next_stage]

    def left(self, turn: int) -> None:
        """Forget states older than ``turn``, as all items before ``turn`` have left."""
        for versions in self._versions.values():
            while len(versions) > 1 and versions[1].turn <= turn:
                versions.popleft()
        if self.ledger is not None:
            self.ledger.left(turn)

    def as_of(self, turn: int) -> tuple[dict[str, Payload], StageStates] | None:
        """Return the states after exactly the items before ``turn``, which have left; of keys, those changed since the
        last call. None: one task ran items before and after ``turn`` together, or an earlier call had a later turn."""
        cut = any(each.begin < turn < each.turn for versions in self._versions.values() for each in versions)
        if cut or turn < self._told_turn or (self.ledger is not None and self.ledger.cut(turn)):
            return None
        self._told_turn = turn
        self.left(turn)
        states = {name: kept[0].payload for name, kept in self._versions.items() if kept[0].turn <= turn}
        return states, {} if self.ledger is None else self.ledger.take()
