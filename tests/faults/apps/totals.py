"""Sums by key: a lost, doubled or misplaced item makes all later sums of its key wrong."""

from collections.abc import Iterator
from pathlib import Path
from time import sleep
from typing import Any

from apps.contract import App
from compositions.model import Stage, StageKind

KEYS = 13
LAST = 11
"""A key is forgotten with its so many-th value."""


class Totals(App):
    name = "totals"
    stages = (Stage("total", StageKind.PARTITIONED, partitions=32), Stage("tell"))

    def items(self, path: Path | None) -> Iterator[int]:
        return iter(())

    def from_json(self, value: Any) -> int:
        return int(value)

    def total_key(self, value: int) -> str:
        return f"key {value % KEYS}"

    def total(self, value: int, state: tuple[int, int] | None) -> tuple[int, tuple[int, int] | None]:
        count, total = state or (0, 0)
        count, total = count + 1, total + value
        return total, (count, total) if count < LAST else None

    def tell(self, value: int) -> int:
        sleep(0.0005)
        return value
