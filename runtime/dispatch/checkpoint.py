"""A checkpoint of a stream: which items may be forgotten, and what another dispatcher needs to go on from there."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from runtime.dispatch.keys import KeyStates, Payload


class ItemsOut(NamedTuple):
    """The number of items that had left at some moment, and how. They were the first ones, as items leave in order:
    so it also says where in the stream that was."""

    delivered: int
    failed: int
    shed: int

    @property
    def next_turn(self) -> int:
        """Return the turn of the first started item that had not left."""
        return self.delivered + self.failed


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Items that have left, and the states of the stages that have seen these items and no other."""

    delivered: int = 0
    failed: int = 0
    shed: int = 0
    states: Mapping[str, Payload] = field(default_factory=dict)
    """By stage; one that has none yet is left out."""
    keyed: Mapping[str, Mapping[int, KeyStates]] = field(default_factory=dict)
    """Of partitioned stages, by stage and partition: what has changed since the checkpoint before; of that which
    another dispatcher begins with, all there is."""

    @property
    def next_serial(self) -> int:
        """All before have left."""
        return self.delivered + self.failed + self.shed

    @property
    def next_turn(self) -> int:
        """Items that were started; those shed never were."""
        return self.delivered + self.failed


BEGINNING = Checkpoint()


StageStates = Mapping[str, Mapping[int, KeyStates]]
"""By stage and partition."""


class Change(NamedTuple):
    """A task on items of turns ``begin`` to before ``end`` left these states; ``partitions`` by their numbers."""

    begin: int
    end: int
    stage: str
    partitions: Mapping[int, KeyStates]


class Ledger:
    """A partition is at one worker at a time, in order: of two changes of a key the later one is that of later items,
    so no more than the last one of the items that are out is kept."""

    def __init__(self) -> None:
        self._ahead: list[Change] = []
        """Of items that have not all left, in the order in which they were made: no more than are started."""
        self._out: dict[str, dict[int, dict[object, bytes | None]]] = {}
        """Of items that have, since the last checkpoint."""

    def note(self, change: Change) -> None:
        self._ahead.append(change)

    def cut(self, turn: int) -> bool:
        """Return whether some items that were changed for together have left, and others have not."""
        return any(each.begin < turn < each.end for each in self._ahead)

    def left(self, next_turn: int) -> None:
        """Items before that turn are out."""
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
        """Return what has changed since this was asked last; from now on it is the asker's."""
        taken, self._out = self._out, {}
        return taken
