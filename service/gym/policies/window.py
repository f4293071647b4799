"""What was measured over the last so many seconds, summed up: what the published rules rest on."""

from __future__ import annotations

from collections import deque

from service.gym.policies.port import Measured

_ROUNDING_S = 1e-6


class Window:
    """Of ``length_s``, or as much of it as has passed since it was cleared."""

    def __init__(self, length_s: float) -> None:
        self._length_s = length_s
        self._turns: deque[Measured] = deque()
        self.elapsed_s = 0.0

    def add(self, turn: Measured) -> None:
        self._turns.append(turn)
        self.elapsed_s += turn.elapsed_s
        while self.elapsed_s - self._turns[0].elapsed_s >= self._length_s - _ROUNDING_S:
            self.elapsed_s -= self._turns.popleft().elapsed_s

    def clear(self) -> None:
        self._turns.clear()
        self.elapsed_s = 0.0

    @property
    def full(self) -> bool:
        return self.elapsed_s >= self._length_s - _ROUNDING_S

    @property
    def arrived_per_s(self) -> float:
        return sum(turn.arrived for turn in self._turns) / self.elapsed_s if self.elapsed_s else 0.0

    def busy_s(self, stage: int) -> float:
        """Of the stage with this index."""
        return sum(turn.stages[stage].busy_s for turn in self._turns)

    def done(self, stage: int) -> int:
        return sum(turn.stages[stage].done for turn in self._turns)

    def utilization(self, stage: int) -> float:
        """Share of its replicas' time that they worked."""
        there_s = sum(turn.stages[stage].replicas * turn.elapsed_s for turn in self._turns)
        return self.busy_s(stage) / there_s if there_s else 0.0
