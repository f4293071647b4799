"""Records that a journal stores of a run, as frozen values."""

import io
import pickle
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from datapipe.sources.portions import Position
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
    """The data that is stored together, all of it or nothing."""

    checkpoint: Checkpoint
    """Its states are values of the stages, not payloads of a pool; those of keys as a worker pickled them."""
    positions: Mapping[str, Position | None] = field(default_factory=dict)
    """Source positions after delivered items, by partition, if changed. None: the partition has ended."""
    left: tuple[Left, ...] = ()
    """Results since the last commit, where they are kept."""
    wanted: int | None = None
    """Results from this serial number on are not in the sink yet: they are kept. None: there is no sink."""


@dataclass(frozen=True, slots=True)
class Resumption:
    """The data that a runner finds of the one before it."""

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
        """The pushed items that are not out, as they came."""
        begin = self.checkpoint.next_serial
        return [value for each in self.pushed for value in each.values[max(0, begin - each.first) :]]


_CHECK_BYTES = 4
MOVED = {
    "apps.event_time.clock": "apps.event_time.windowing",
    "apps.input.folder": "datapipe.sources.folder",
    "apps.input.positions": "datapipe.sources.portions",
    "apps.input.redis_streams": "datapipe.brokers.redis.source",
}
"""Modules of earlier versions whose classes are in journals, and where these classes are now."""


class Damaged(ValueError):  # noqa: N818 - says what happened to it
    """These bytes are not what was written."""


def sealed(value: Any) -> bytes:
    """Raises: what pickle raises on a value that cannot be pickled."""
    body = pickle.dumps(value, protocol=5)
    return zlib.crc32(body).to_bytes(_CHECK_BYTES, "big") + body


def mark(*names: object) -> int:
    """Return a check sum of the names that identify a body. Those of many are joined by exclusive or, in any order."""
    return zlib.crc32(repr(names).encode())


def unsealed(stored: bytes) -> Any:
    """Nothing is made of bytes whose check sum is wrong. Raises: Damaged."""
    body = memoryview(stored)[_CHECK_BYTES:]
    if len(stored) < _CHECK_BYTES or zlib.crc32(body) != int.from_bytes(stored[:_CHECK_BYTES], "big"):
        raise Damaged("the check sum of a record is wrong")
    return loaded(body)


def loaded(body: bytes | memoryview) -> Any:
    """Return the unpickled value, also of a class that an earlier version had in another module."""
    return _Reader(io.BytesIO(body)).load()


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        short = module.removeprefix("recompose.")
        return super().find_class(MOVED.get(short, module), name)
