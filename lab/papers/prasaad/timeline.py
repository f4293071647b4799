"""The port of time: when inputs arrive and workers are done. Virtual here; by the clock, with workers that compute, in
``lab/benchmarks/crew.py``."""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from itertools import count
from typing import Literal, NamedTuple

Step = Literal["arrive", "done", "sent"]


class Happening(NamedTuple):
    step: Step
    worker: int | None
    """Number of the one whose step it is; None: an input arrives."""


class Timeline(ABC):
    """The time of one run, which begins at 0."""

    now_s = 0.0
    """When the last happening was."""

    @abstractmethod
    def plan(self, at_s: float, step: Step, worker: int | None) -> None:
        """Plan a step at a time; for a worker: after it has worked from ``now_s`` until then."""

    @abstractmethod
    def next(self, until_s: float) -> Happening | None:
        """Return the earliest planned step and set ``now_s`` to its time; None: nothing happens until then."""

    def worked_s(self, worker: int, planned_s: float) -> float:
        """Return the time of a worker's last step, which was planned to take ``planned_s``."""
        return planned_s


class VirtualTime(Timeline):
    """Everything takes as long as planned; what happens at once, in the order in which it was planned."""

    def __init__(self) -> None:
        self._planned: list[tuple[float, int, Happening]] = []
        self._order = count()

    def plan(self, at_s: float, step: Step, worker: int | None) -> None:
        heapq.heappush(self._planned, (at_s, next(self._order), Happening(step, worker)))

    def next(self, until_s: float) -> Happening | None:
        if not self._planned or self._planned[0][0] > until_s:
            return None
        self.now_s, _, happening = heapq.heappop(self._planned)
        return happening
