"""The intake of a simulated run: it gathers items that travel together, in virtual time, as a runner does it.

A bundle is closed by count or age. Items that are due while others wait for a worker are the next bundle.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from apps.rates import Rate
from compositions.batching import BundleLimits
from datapipe.sources.schedule import Offer
from profiler.snapshot import Demand
from runtime.engine import Engine


@dataclass(slots=True)
class SimulatedInlet:
    """The place where bundles are closed, as the controller of the bundle size sees it."""

    rate: Rate
    limits: BundleLimits = field(default_factory=BundleLimits)
    behind: Callable[[], int] = lambda: 0
    """Function that returns the number of items that are due and not read."""

    def set_batching(self, limits: BundleLimits) -> None:
        self.limits = limits

    def offered_per_s(self, now_s: float) -> float | None:
        return self.rate(now_s)

    def offer(self) -> Offer:
        return Offer(0, 0, self.behind(), 0.0)


@dataclass(frozen=True, slots=True)
class SimulatedDoor:
    """What a source needs: the engine, the limits of a bundle, and a listener (serial number, items, s)."""

    engine: Engine
    inlet: SimulatedInlet
    admitted: Callable[[int, int, float], None] = lambda *_: None
    tell: Callable[[Demand], Demand] = lambda demand: demand
    """Function that adds the maximum bundle size to the demand."""


class SimulatedGathering:
    """Gathers items between a source and the engine."""

    def __init__(self, door: SimulatedDoor) -> None:
        self._engine, self._door = door.engine, door
        self._arrived_s: list[float] = []
        self._due_s: list[float] = []

    @property
    def has_room(self) -> bool:
        """Return if there is room for one more item."""
        return self._takes if self._limits.items == 1 else len(self._arrived_s) < self._limits.items

    def put(self, arrived_s: float, due_s: float) -> None:
        """Add an item; call ``has_room`` first."""
        self._arrived_s.append(arrived_s)
        self._due_s.append(due_s)
        if len(self._arrived_s) >= self._limits.items:
            self.settle()

    def settle(self) -> float:
        """Close bundles that are due; return the time of the next one, or infinity if time alone closes none."""
        if not self._arrived_s or not self._takes:
            return math.inf
        closes_s = self._arrived_s[0] + self._limits.linger_s
        if len(self._arrived_s) < self._limits.items and self._engine.now_s < closes_s:
            return closes_s
        first = self._engine.admit(None, tuple(self._arrived_s), tuple(self._due_s))
        items = len(self._arrived_s)
        self._arrived_s.clear()
        self._due_s.clear()
        self._door.admitted(first, items, self._engine.now_s)
        return math.inf

    @property
    def _limits(self) -> BundleLimits:
        return self._door.inlet.limits

    @property
    def _takes(self) -> bool:
        return self._engine.has_room and (self._limits.items == 1 or not self._engine.waits)
