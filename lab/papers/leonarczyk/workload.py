"""Workloads: how hard each tuple is, and which phase it belongs to (Leonarczyk 2024, section 4.2.1, table 4.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from apps.military_server.app import PATTERNS, PHASES, Phase, loads_of
from apps.military_server.app import Loads as Floats

__all__ = ["PATTERNS", "PHASES", "Floats", "Phase", "Workload"]


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """Phases one after the other. Equal to itself only, so that what follows from it can be kept by it."""

    phases: Sequence[Phase]
    loads: Floats
    """One a tuple, 0..1."""

    @staticmethod
    def of(phases: Sequence[Phase] = PHASES) -> Workload:
        return Workload(tuple(phases), loads_of(phases))

    @property
    def bounds(self) -> list[tuple[int, int]]:
        """First tuple of each phase and the first after it."""
        edges = accumulate((phase.tuples for phase in self.phases), initial=0)
        return list(pairwise(edges))
