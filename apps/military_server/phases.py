"""The phase workload: how hard each tuple is, one pattern after the other (Leonarczyk 2024, table 4.1, figure 4.4).

Its patterns are SPBench's, read over tuples instead of seconds: 0 is the easiest tuple, 1 the hardest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from apps.military_server.records import COORDINATES, SENT, UNITS, parted
from apps.military_server.terrain import KINDS, SIDE, WIDEST
from apps.rates import Binary, Decreasing, Increasing, Spike, Wave

Loads = NDArray[np.float64]
PATTERNS = {"increasing": Increasing, "spike": Spike, "decreasing": Decreasing, "binary": Binary, "wave": Wave}


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

    def loads(self) -> Loads:
        """One load a tuple."""
        pattern = PATTERNS[self.pattern](float(self.tuples_a_cycle), self.low, self.high)
        return np.tile([pattern(float(tuple_)) for tuple_ in range(self.tuples_a_cycle)], self.cycles)


PHASES = (
    Phase("increasing", 200_000, 1),
    Phase("spike", 20_000, 5),
    Phase("decreasing", 200_000, 1),
    Phase("binary", 40_000, 5),
    Phase("wave", 30_000, 10),
)
"""Table 4.1: 20, 10, 20, 20 and 30 % of a million tuples."""


@cache
def phase_workload() -> Loads:
    """The thesis's million; made once a process, in a third of a second. Not to be written on."""
    return loads_of(PHASES)


def loads_of(phases: Sequence[Phase]) -> Loads:
    """Phases one after the other."""
    return np.concatenate([phase.loads() for phase in phases])


def scaled(loads: Loads, tuples: int) -> Loads:
    """The same course over so many tuples."""
    return loads[np.arange(tuples) * len(loads) // tuples]


AT_A_TIME = 4096
"""Records made in one go."""
Widths = NDArray[np.int64]


def phase_widths(tuples: int, narrowest: int, widest: int) -> Widths:
    """The width follows the phases, so that the squares to look at go with its square."""
    return np.rint(narrowest + scaled(phase_workload(), tuples) * (widest - narrowest)).astype(np.int64)


def sent_by_drones(widths: Widths, seed: int) -> Iterator[bytes]:
    """A record for each width, at random places of the map, with random units."""
    chance = np.random.default_rng(seed)
    for start in range(0, len(widths), AT_A_TIME):
        part = widths[start : start + AT_A_TIME]
        records = np.empty(len(part), SENT)
        records["drone"] = np.arange(start, start + len(part))
        records["width"] = part
        records["coordinates"] = chance.integers(WIDEST, SIDE - WIDEST, (len(part), COORDINATES, 2), np.uint16)
        records["kinds"] = chance.integers(0, KINDS, (len(part), UNITS), np.uint8)
        yield from parted(records)
