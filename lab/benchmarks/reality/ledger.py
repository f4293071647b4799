"""An app whose stages differ in kind: one computes, one waits, one computes with a state."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from apps.contract import App
from apps.synthetic.app import burn, lognormal, rest, uniform
from compositions.model import Stage, StageKind

CHECK_S, FETCH_S, TOTAL_S = 0.006, 0.020, 0.004
CV = 0.5
ITEMS = 10_000


class Ledger(App):
    """Check an entry, fetch what belongs to it, and add it to the total."""

    name: ClassVar[str] = "ledger"
    stages = (Stage("check"), Stage("fetch"), Stage("total", StageKind.STATEFUL))

    def items(self, path: Path | None) -> Iterator[int]:
        return iter(range(ITEMS))

    def check(self, entry: int) -> int:
        burn(CHECK_S * _variation(entry, 0), time.thread_time())
        return entry

    def fetch(self, entry: int) -> int:
        rest(FETCH_S * _variation(entry, 1), time.perf_counter())
        return entry

    def total(self, entry: int, state: int | None) -> tuple[int, int]:
        burn(TOTAL_S * _variation(entry, 2), time.thread_time())
        total = (state or 0) + entry
        return total, total


def _variation(entry: int, stage: int) -> float:
    return lognormal(uniform(0, entry, stage), CV)
