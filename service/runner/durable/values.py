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
    """Results that left one after the other."""

    first: int
    values: Sequence[Any]
    error: str | None
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Pushed:
    """Items that were pushed together, as received: ``values`` before the app converted them."""

    first: int
    values: tuple[Any, ...]

    @property
    def end(self) -> int:
        return self.first + len(self.values)


@dataclass(frozen=True, slots=True)
class Commit:
    """Data that a transaction stores together, all of it or nothing."""

    checkpoint: Checkpoint
    """Its states are values of the stages, not payloads of a pool; keyed states are as a worker pickled them."""
    positions: Mapping[str, Position | None] = field(default_factory=dict)
    """Source positions after delivered items, by partition, if changed. None: the partition has ended."""
    left: tuple[Left, ...] = ()
    """Results since the last commit, if results are stored."""
    wanted: int | None = None
    """The sink lacks results from this serial number on, so they are retained. None: there is no sink."""


@dataclass(frozen=True, slots=True)
class Resumption:
    """Data that a runner finds of the previous runner."""

    checkpoint: Checkpoint = BEGINNING
    positions: Mapping[str, Position] = field(default_factory=dict)
    left: tuple[Left, ...] = ()
    """The latest results, as far as they were stored."""
    pushed: tuple[Pushed, ...] = ()
    """Acknowledged items that were not delivered; the first group may contain delivered ones."""
    wanted: int | None = None
    """As :attr:`Commit.wanted`."""
    keyed: dict[str, dict[Any, bytes]] = field(default_factory=dict)
    """Pickled states of keys, by partitioned stage. The reader takes them out, as they may be large."""

    @property
    def accepted(self) -> int:
        """Number of items with a serial number."""
        return max(self.checkpoint.next_serial, self.pushed[-1].end if self.pushed else 0)

    @property
    def undelivered(self) -> list[Any]:
        """Return the pushed items that were not delivered, as received."""
        begin = self.checkpoint.next_serial
        return [value for each in self.pushed for value in each.values[max(0, begin - each.first) :]]


_CHECK_BYTES = 4
MOVED = {
    "apps.event_time.clock": "apps.event_time.windowing",
    "apps.input.folder": "datapipe.sources.folder",
    "apps.input.positions": "datapipe.sources.portions",
    "apps.input.redis_streams": "datapipe.brokers.redis.source",
}
"""Modules of earlier versions whose classes occur in journals, and the present modules of these classes."""


class Damaged(ValueError):  # noqa: N818 - says what happened to it
    """These bytes differ from the written ones."""


def sealed(value: Any) -> bytes:
    """Return a pickled value with its check sum. Raises: pickle's errors for a value that cannot be pickled."""
    body = pickle.dumps(value, protocol=5)
    return zlib.crc32(body).to_bytes(_CHECK_BYTES, "big") + body


def mark(*names: object) -> int:
    """Return a check sum of the names that identify a body. Exclusive or joins several, in any order."""
    return zlib.crc32(repr(names).encode())


def unsealed(stored: bytes) -> Any:
    """Return the body of a record, unless its check sum is wrong. Raises: Damaged."""
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
