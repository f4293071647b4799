"""Sources of simulated tuples."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AlwaysThere:
    """Tuples are there whenever a bundle opens, and their latency counts from then on; as in the thesis."""

    rate_per_s: None = None

    def arrived_s(self, tuple_: int, opened_s: float) -> float:
        return opened_s

    def waiting(self, first: int, at_s: float) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class Paced:
    """Tuples arrive evenly, also while bundles have no room."""

    rate_per_s: float

    def arrived_s(self, tuple_: int, opened_s: float) -> float:
        return tuple_ / self.rate_per_s

    def waiting(self, first: int, at_s: float) -> int:
        """How many from ``first`` on have arrived."""
        return max(0, int(at_s * self.rate_per_s) + 1 - first)


Source = AlwaysThere | Paced
ALWAYS_THERE = AlwaysThere()
