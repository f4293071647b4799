"""A checkpoint of a stream: the items that may be forgotten, and the states that another dispatcher continues from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from runtime.dispatch.keys import KeyStates, Payload


class ItemsOut(NamedTuple):
    """The number of items that had left at some moment, by kind. Items leave in order, so the numbers also give the
    position in the stream."""

    delivered: int
    failed: int
    shed: int

    @property
    def next_turn(self) -> int:
        """The turn of the first started item that had not left."""
        return self.delivered + self.failed


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Counts of items that have left, and the states of the stages after exactly these items."""

    delivered: int = 0
    failed: int = 0
    shed: int = 0
    states: Mapping[str, Payload] = field(default_factory=dict)
    """States of stateful stages, by stage; a stage without a state yet is left out."""
    keyed: Mapping[str, Mapping[int, KeyStates]] = field(default_factory=dict)
    """Key states of partitioned stages, by stage and partition: those changed since the previous checkpoint. In the
    checkpoint that a dispatcher begins with: all."""

    @property
    def next_serial(self) -> int:
        """Serial number of the first item that has not left."""
        return self.delivered + self.failed + self.shed

    @property
    def next_turn(self) -> int:
        """Number of started items that have left, which is the next turn; shed items were never started."""
        return self.delivered + self.failed


BEGINNING = Checkpoint()


StageStates = Mapping[str, Mapping[int, KeyStates]]
"""Key states by stage and partition."""


class Change(NamedTuple):
    """The key states that a task on items of turns ``begin`` to before ``end`` left, by number of the partition."""

    begin: int
    end: int
    stage: str
    partitions: Mapping[int, KeyStates]


class Ledger:
    """The changes of key states since the last checkpoint. A partition is at one worker at a time, so changes of a key
    come in the order of items; of the items that have left, only the last change of each key is kept."""

    def __init__(self) -> None:
        self._ahead: list[Change] = []
        """Changes by items that have not all left, in the order in which they were made."""
        self._out: dict[str, dict[int, dict[object, bytes | None]]] = {}
        """Changes since the last checkpoint by items that have left."""

    def note(self, change: Change) -> None:
        self._ahead.append(change)

    def cut(self, turn: int) -> bool:
        """Return whether ``turn`` lies inside a change: some of its items have left, others have not."""
        return any(each.begin < turn < each.end for each in self._ahead)

    def left(self, next_turn: int) -> None:
        """Move the changes of items before ``next_turn``, which have left, to the next checkpoint's."""
        if not self._ahead or all(each.end > next_turn for each in self._ahead):
            return
        ahead = []
        for each in self._ahead:
            if each.end > next_turn:
                ahead.append(each)
                continue
            out = self._out.setdefault(each.stage, {})
            for partition, states in each.partitions.items():
                out.setdefault(partition, {}).update(states)
        self._ahead = ahead

    def take(self) -> StageStates:
        """Return the changes since the last call, and forget them."""
        taken, self._out = self._out, {}
        return taken
