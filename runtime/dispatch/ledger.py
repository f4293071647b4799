"""A ledger of changes to the states of keys, item by item: a checkpoint must have the states that the items before it
left, and no others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from runtime.dispatch.keys import KeyStates

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
