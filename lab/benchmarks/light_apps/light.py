"""The lightest possible streams: four stages that add one, and running sums by key, over endless numbers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from pydantic import Field

from apps.contract import App, Options
from compositions.model import Stage, StageKind

KEYS = 1_000


class LightOptions(Options):
    """Options of :class:`Light`."""

    loops: int = Field(default=0, ge=0)
    """Loops of extra work in the second stage."""


class Light(App):
    """Adds one, four times."""

    name = "light"
    stages = (Stage("s1"), Stage("s2"), Stage("s3"), Stage("s4"))
    options_model = LightOptions
    options: LightOptions

    def items(self, path: Path | None) -> Iterator[int]:
        """Yield numbers without an end."""
        return count()

    def s1(self, value: int) -> int:
        return value + 1

    def s2(self, value: int) -> int:
        if self.options.loops:  # even an empty loop would take a fifth of a worker's time for an item
            for _ in range(self.options.loops):
                pass
        return value + 1

    s3 = s4 = s1


class KeyedSum(App):
    """The sum of all numbers so far with the same remainder."""

    name = "keyed_sum"
    stages = (Stage("total", StageKind.PARTITIONED, partitions=64),)

    def items(self, path: Path | None) -> Iterator[int]:
        """Yield numbers without an end."""
        return count()

    def total_key(self, value: int) -> int:
        return value % KEYS

    def total(self, value: int, state: int | None) -> Any:
        total = (state or 0) + value
        return total, total


class KeyedSums(KeyedSum):
    """The same sums, in one call per bundle."""

    name = "keyed_sums"
    stages = (Stage("total", StageKind.PARTITIONED, partitions=64, batch=True),)

    def total(self, values: Any, states: Any) -> Any:
        sums = []
        for value in values:
            key = value % KEYS
            total = states[key] = (states[key] or 0) + value
            sums.append(total)
        return sums, states
