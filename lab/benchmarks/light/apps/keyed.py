"""Apps with states by key, for :mod:`lab.benchmarks.keyed_sum` and :mod:`lab.benchmarks.large_state`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from pydantic import Field

from apps.contract import App, Options
from compositions.model import Stage, StageKind


class KeyedOptions(Options):
    """Options of the apps here."""

    keys: int = Field(default=1000, ge=1)
    state_bytes: int = Field(default=1000, ge=8)
    """Size of a state of :class:`KeyedBlobs`."""


class KeyedSum(App):
    """The sum of all numbers so far with the same remainder."""

    name = "keyed_sum"
    stages = (Stage("total", StageKind.PARTITIONED, partitions=64),)
    options_model = KeyedOptions
    options: KeyedOptions

    def items(self, path: Path | None) -> Iterator[int]:
        """Numbers without an end."""
        return count()

    def total_key(self, value: int) -> int:
        return value % self.options.keys

    def total(self, value: int, state: int | None) -> Any:
        total = (state or 0) + value
        return total, total


class KeyedSums(KeyedSum):
    """The same sums, in one call per bundle."""

    name = "keyed_sums"
    stages = (Stage("total", StageKind.PARTITIONED, partitions=64, batch=True),)

    def total(self, values: Any, states: Any) -> Any:
        sums, keys = [], self.options.keys
        for value in values:
            key = value % keys
            total = states[key] = (states[key] or 0) + value
            sums.append(total)
        return sums, states


STEP = 7919
"""Neither 2 nor 5 divides it: in steps of this size, each key of a power of ten comes once before one comes again."""
COUNT_BYTES = 8


class KeyedBlobs(App):
    """How often each key came, in the first bytes of its state."""

    name = "keyed_blobs"
    stages = (Stage("count", StageKind.PARTITIONED, partitions=256),)
    options_model = KeyedOptions
    options: KeyedOptions

    def __init__(self, options: KeyedOptions | None = None) -> None:
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
