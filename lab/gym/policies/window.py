"""Aggregate measurements over the last seconds: the input of the published rules."""

from __future__ import annotations

from collections import deque

from lab.gym.policies.port import Measured

_ROUNDING_S = 1e-6


class Window:
    """The turns of the last ``length_s``, or of as much time as has passed since the window was cleared.

    Sums are kept up to date with each turn, since a window of 15 minutes has 3,600 turns.
    """

    def __init__(self, length_s: float) -> None:
        self._length_s = length_s
        self._turns: deque[Measured] = deque()
        self.clear()

    def add(self, turn: Measured) -> None:
        self._turns.append(turn)
        self._count(turn, 1)
        while self.elapsed_s - self._turns[0].elapsed_s >= self._length_s - _ROUNDING_S:
            self._count(self._turns.popleft(), -1)

    def clear(self) -> None:
        self._turns.clear()
        self.elapsed_s = 0.0
        self.arrived = 0
        self._busy_s: list[float] = []
        self._done: list[int] = []
        self._there_s: list[float] = []
        self._waiting_s: list[float] = []

    @property
    def full(self) -> bool:
        return self.elapsed_s >= self._length_s - _ROUNDING_S

    @property
    def arrived_per_s(self) -> float:
        return self.arrived / self.elapsed_s if self.elapsed_s else 0.0

    def done(self, stage: int) -> int:
        """Return the number of items that the stage with this index finished."""
        return self._done[stage]

    def service_s(self, stage: int) -> float | None:
        """Return the mean time that a replica works on an item, or None where the stage finished none."""
        done = self._done[stage] if self._done else 0
        return self._busy_s[stage] / done if done and self._busy_s[stage] > _ROUNDING_S else None

    def utilization(self, stage: int) -> float | None:
        """Return the share of time that ready replicas worked, or None where no replica was ready."""
        there_s = self._there_s[stage] if self._there_s else 0.0
        return self._busy_s[stage] / there_s if there_s > _ROUNDING_S else None

    def waiting(self, stage: int) -> float:
        """Return the mean number of items that waited at the stage or were in work there."""
        return max(0.0, self._waiting_s[stage] / self.elapsed_s) if self.elapsed_s else 0.0

    def _count(self, turn: Measured, sign: int) -> None:
        if not self._busy_s:
            stages = len(turn.stages)
            self._busy_s, self._there_s, self._waiting_s = [0.0] * stages, [0.0] * stages, [0.0] * stages
            self._done = [0] * stages
        self.elapsed_s += sign * turn.elapsed_s
        self.arrived += sign * turn.arrived
        for index, stage in enumerate(turn.stages):
            self._busy_s[index] += sign * stage.busy_s
            self._done[index] += sign * stage.done
            self._there_s[index] += sign * stage.ready * turn.elapsed_s
            self._waiting_s[index] += sign * stage.waiting * turn.elapsed_s
