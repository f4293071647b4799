"""Two apps of three stages each that mostly wait, as stages do that call a store and a model."""

import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from apps.contract import App
from apps.synthetic.app import burn, rest
from compositions.model import Stage

STAGES = {"read": 0.005, "find": 0.030, "rank": 0.010}
"""Seconds an item."""
COMPUTED = 0.1
"""Share that is computed; the rest is waiting."""


class Turns(App):
    """``name`` is each app's own."""

    stages = tuple(Stage(name) for name in STAGES)

    def items(self, path: Path | None) -> Iterator[int]:
        """Numbers without an end."""
        return count()

    def read(self, value: int) -> int:
        return self._take("read", value)

    def find(self, value: int) -> int:
        return self._take("find", value)

    def rank(self, value: int) -> int:
        return self._take("rank", value)

    def _take(self, stage: str, value: int) -> int:
        since_s, used_s = time.perf_counter(), time.thread_time()
        burn(COMPUTED * STAGES[stage], used_s)
        rest(STAGES[stage], since_s)
        return value


class First(Turns):
    name = "first"


class Second(Turns):
    name = "second"
