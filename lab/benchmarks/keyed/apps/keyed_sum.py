"""A running sum for each of a thousand keys. For :mod:`lab.benchmarks.keyed_sum`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

from pydantic import Field

from apps.contract import App, Options
from compositions.model import Stage, StageKind


class KeyedSumOptions(Options):
    """Options of :class:`KeyedSum`."""

    keys: int = Field(default=1000, ge=1)


class KeyedSum(App):
    """The sum of all numbers so far with the same remainder."""

    name = "keyed_sum"
    stages = (Stage("total", StageKind.PARTITIONED, partitions=64),)
    options_model = KeyedSumOptions
    options: KeyedSumOptions

    def items(self, path: Path | None) -> Iterator[int]:
        """Numbers without an end."""
        return count()

    def total_key(self, value: int) -> int:
        return value % self.options.keys

    def total(self, value: int, state: int | None) -> tuple[int, int]:
        total = (state or 0) + value
        return total, total
