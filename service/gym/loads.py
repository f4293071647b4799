"""Loads that move: patterns of the input rate, by name."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from apps.input.rates import Fixed, Increasing, Rate, Wave
from profiler.snapshot import Announcement


@dataclass(frozen=True, slots=True)
class Span:
    """Between which rates a load moves, items/s, and for how long."""

    low_per_s: float = 8.0
    high_per_s: float = 70.0
    duration_s: float = 570.0

    def wave(self, period_s: float) -> Rate:
        return Wave(period_s, self.low_per_s, self.high_per_s)

    def ramp(self) -> Rate:
        return Increasing(self.duration_s, self.low_per_s, self.high_per_s)

    def held(self, hold_s: float, seed: int) -> Rate:
        """A new rate every ``hold_s``, drawn evenly from the span."""
        draw = random.Random(seed)
        count = math.ceil(self.duration_s / hold_s) + 1
        drawn = tuple(draw.uniform(self.low_per_s, self.high_per_s) for _ in range(count))
        return lambda at_s: drawn[min(int(at_s / hold_s), count - 1)]

    def announced(self, length_s: float, period_s: float) -> tuple[Announcement, ...]:
        """The crowds of ``crowds``, by somebody who knows."""
        starts = [k * period_s - length_s for k in range(1, math.ceil(self.duration_s / period_s) + 1)]
        return tuple(Announcement(at_s, at_s + length_s, self.high_per_s) for at_s in starts)

    def crowds(self, length_s: float, period_s: float) -> Rate:
        """The low rate, and the high one for the last ``length_s`` of each period."""
        return lambda at_s: self.high_per_s if at_s % period_s >= period_s - length_s else self.low_per_s


MakeLoad = Callable[[Span, int], Rate]
"""Of a span and a seed."""

LOADS: Mapping[str, MakeLoad] = {
    "wave of 60 s": lambda span, seed: span.wave(60.0),
    "wave of 180 s": lambda span, seed: span.wave(180.0),
    "steps of 60 s": lambda span, seed: span.held(60.0, seed),
    "crowd, 12 of 60 s": lambda span, seed: span.crowds(12.0, 60.0),
    "crowd, 24 of 120 s": lambda span, seed: span.crowds(24.0, 120.0),
    "ramp": lambda span, seed: span.ramp(),
    "random, every 5 s": lambda span, seed: span.held(5.0, seed),
    "constant": lambda span, seed: Fixed((span.low_per_s + span.high_per_s) / 2),
}
