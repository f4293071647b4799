"""A state of a kilobyte for each of many keys. For :mod:`lab.benchmarks.large_state`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

from pydantic import Field

from apps.contract import App, Options
from compositions.model import Stage, StageKind

STEP = 7919
"""Neither 2 nor 5 divides it: that many numbers on, each key of a power of ten comes once before one comes again."""
COUNT_BYTES = 8


class KeyedBlobsOptions(Options):
    """Options of :class:`KeyedBlobs`."""

    keys: int = Field(default=1000, ge=1)
    state_bytes: int = Field(default=1000, ge=COUNT_BYTES)


class KeyedBlobs(App):
    """How often each key came, in the first bytes of its state."""

    name = "keyed_blobs"
    stages = (Stage("count", StageKind.PARTITIONED, partitions=256),)
    options_model = KeyedBlobsOptions
    options: KeyedBlobsOptions

    def __init__(self, options: KeyedBlobsOptions | None = None) -> None:
        super().__init__(options)
        self._rest = bytes(self.options.state_bytes - COUNT_BYTES)

    def items(self, path: Path | None) -> Iterator[int]:
        """All keys, and all again, without an end."""
        keys = self.options.keys
        return (number * STEP % keys for number in count())

    def count_key(self, key: int) -> int:
        return key

    def count(self, key: int, state: bytes | None) -> tuple[int, bytes]:
        came = 1 if state is None else int.from_bytes(state[:COUNT_BYTES], "little") + 1
        return came, came.to_bytes(COUNT_BYTES, "little") + self._rest
