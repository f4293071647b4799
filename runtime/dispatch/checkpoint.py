"""A checkpoint of a stream: which items may be forgotten, and what another dispatcher needs to go on from there."""

from __future__ import annotations

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
