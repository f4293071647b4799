"""The phase workload: how hard each of a million tuples is (Leonarczyk 2024, section 4.2.1, table 4.1).

Its patterns are SPBench's, read over tuples instead of seconds: 0 is the easiest tuple, 1 the hardest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

from apps.input.rates import Binary, Decreasing, Increasing, Spike, Wave

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Phase:
    """``cycles`` times the same pattern over ``tuples_a_cycle`` tuples, between two loads 0..1."""

    pattern: str
    tuples_a_cycle: int
    cycles: int
    low: float = 0.0
    high: float = 1.0

    @property
    def tuples(self) -> int:
        return self.tuples_a_cycle * self.cycles

    def loads(self) -> Floats:
        """One load a tuple."""
        pattern = PATTERNS[self.pattern](float(self.tuples_a_cycle), self.low, self.high)
        return np.tile([pattern(float(tuple_)) for tuple_ in range(self.tuples_a_cycle)], self.cycles)


PATTERNS = {"increasing": Increasing, "spike": Spike, "decreasing": Decreasing, "binary": Binary, "wave": Wave}

PHASES = (
    Phase("increasing", 200_000, 1),
    Phase("spike", 20_000, 5),
    Phase("decreasing", 200_000, 1),
    Phase("binary", 40_000, 5),
    Phase("wave", 30_000, 10),
)
"""Table 4.1: 20, 10, 20, 20 and 30 % of a million tuples."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Phases one after the other."""

    phases: Sequence[Phase]
    loads: Floats
    """One a tuple, 0..1."""

    @staticmethod
    def of(phases: Sequence[Phase] = PHASES) -> Workload:
        return Workload(tuple(phases), np.concatenate([phase.loads() for phase in phases]))

    @property
    def bounds(self) -> list[tuple[int, int]]:
        """First tuple of each phase and the first after it."""
        edges = accumulate((phase.tuples for phase in self.phases), initial=0)
        return list(pairwise(edges))
