"""A running sum for each of a thousand keys, in one call a bundle. For :mod:`lab.benchmarks.keyed_sum`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

from apps.contract import App
from compositions.model import Stage, StageKind

KEYS = 1000


class KeyedSums(App):
    """The sum of all numbers so far with the same remainder."""

    name = "keyed_sums"
    stages = (Stage("total", StageKind.PARTITIONED, partitions=64, batch=True),)

    def items(self, path: Path | None) -> Iterator[int]:
        """Numbers without an end."""
        return count()

    def total_key(self, value: int) -> int:
        return value % KEYS

    def total(self, values: list[int], states: dict[int, int | None]) -> tuple[list[int], dict[int, int | None]]:
        sums = []
        for value in values:
            key = value % KEYS
            total = states[key] = (states[key] or 0) + value
            sums.append(total)
        return sums, states
