"""Virtual time: when inputs arrive and workers are done."""

from __future__ import annotations

import heapq
from itertools import count
from typing import Literal, NamedTuple

Step = Literal["arrive", "done", "sent"]


class Happening(NamedTuple):
    step: Step
    worker: int | None
    """Number of the one whose step it is; None: an input arrives."""


class VirtualTime:
    """The time of one run. Everything takes as long as planned; what happens at once, in the order of the plan."""

    def __init__(self) -> None:
        self.now_s = 0.0
        """When the last happening was."""
        self._planned: list[tuple[float, int, Happening]] = []
        self._order = count()

    def plan(self, at_s: float, step: Step, worker: int | None) -> None:
        heapq.heappush(self._planned, (at_s, next(self._order), Happening(step, worker)))

    def next(self, until_s: float) -> Happening | None:
        """Return the earliest planned step and set ``now_s`` to its time; None: nothing happens until then."""
        if not self._planned or self._planned[0][0] > until_s:
            return None
        self.now_s, _, happening = heapq.heappop(self._planned)
        return happening
