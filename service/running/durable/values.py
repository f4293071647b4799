"""What is stored of a run, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from apps.input.positions import Position
from runtime.dispatch.checkpoint import BEGINNING, Checkpoint


class Left(NamedTuple):
    """Results that left one after the other, as ``building.kept.Run`` has them."""

    first: int
    values: Sequence[Any]
    error: str | None
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Pushed:
    """Items that were pushed together, as they came: ``values`` before the app made anything of them."""

    first: int
    values: tuple[Any, ...]

    @property
    def end(self) -> int:
        return self.first + len(self.values)


@dataclass(frozen=True, slots=True)
class Commit:
    """What is stored together, all of it or nothing."""

    checkpoint: Checkpoint
    """Its states are values of the stages, not payloads of a pool; those of keys as a worker pickled them."""
    positions: Mapping[str, Position] = field(default_factory=dict)
    """Where the source goes on behind the items that left, by partition."""
    left: tuple[Left, ...] = ()
    """Results since the last commit, where they are kept."""
    wanted: int | None = None
    """Results from this serial number on are not in the sink yet: they are kept. None: there is no sink."""


@dataclass(frozen=True, slots=True)
class Resumption:
    """What a runner finds of the one before it."""

    checkpoint: Checkpoint = BEGINNING
    positions: Mapping[str, Position] = field(default_factory=dict)
    left: tuple[Left, ...] = ()
    """The latest results, as far as they are kept."""
    pushed: tuple[Pushed, ...] = ()
    """What was acknowledged and is not out; the first may have items that are."""
    wanted: int | None = None
    """As :attr:`Commit.wanted`."""
    keyed: dict[str, dict[Any, bytes]] = field(default_factory=dict)
    """States of keys, pickled, by partitioned stage. Whoever begins with them takes them out: they may be much."""

    @property
    def accepted(self) -> int:
        """Items that were given a serial number."""
        return max(self.checkpoint.next_serial, self.pushed[-1].end if self.pushed else 0)

    @property
    def undelivered(self) -> list[Any]:
        """Of those pushed, what is not out, as it came."""
        begin = self.checkpoint.next_serial
        return [value for each in self.pushed for value in each.values[max(0, begin - each.first) :]]
