"""How the time of a task follows from the size of its item: what is known of an item before it is worked on.

Many stages do not take the same time for every item: ranking takes longer the more candidates an item carries, and its
payload is larger for the same reason. Where size and time follow a power law, ``time ~ size ** exponent``, the items in
flight are told apart instead of all being taken for average ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log


@dataclass(frozen=True, slots=True)
class SizeLaw:
    """``factor(size)`` times the mean time is what an item of that size is expected to take; its mean is 1."""

    exponent: float
    log_scale: float
    """So that the mean factor is 1 where log sizes are about normal: exponent · mean + (exponent · sd)² / 2."""
    unexplained: float
    """Share of the variance of the logarithm of the time that the size does not explain, 0 to 1."""

    def factor(self, size_bytes: int) -> float:
        return exp(self.exponent * log(size_bytes) - self.log_scale) if size_bytes > 0 else 1.0


class SizeTrend:
    """A running least-squares line through (log size, log time) that forgets: gain 1/64, about the last 64 tasks."""

    GAIN = 1 / 64
    LEAST_SAMPLES = 12
    LEAST_EXPLAINED = 0.5
    """Below half of the variance explained, and at sizes that hardly differ, the mean is as good."""
    LEAST_SPREAD = 1e-4
    """Least variance of the logarithm of the size: 1 % either way."""

    def __init__(self) -> None:
        self._count = 0
        self._mean_x = self._mean_y = self._var_x = self._var_y = self._cov = 0.0

    def add(self, size_bytes: int, time_s: float) -> None:
        """Takes one task; sizes and times that are not positive say nothing and are left out."""
        if size_bytes <= 0 or time_s <= 0:
            return
        self._count += 1
        gain = max(self.GAIN, 1 / self._count)
        dx, dy = log(size_bytes) - self._mean_x, log(time_s) - self._mean_y
        self._mean_x += gain * dx
        self._mean_y += gain * dy
        self._var_x = (1 - gain) * (self._var_x + gain * dx * dx)
        self._var_y = (1 - gain) * (self._var_y + gain * dy * dy)
        self._cov = (1 - gain) * (self._cov + gain * dx * dy)

    def law(self) -> SizeLaw | None:
        """None while too little is known, and where size does not tell the time."""
        if self._count < self.LEAST_SAMPLES or self._var_x < self.LEAST_SPREAD or self._var_y <= 0:
            return None
        explained = self._cov**2 / (self._var_x * self._var_y)
        if explained < self.LEAST_EXPLAINED:
            return None
        exponent = self._cov / self._var_x
        return SizeLaw(exponent, exponent * self._mean_x + exponent**2 * self._var_x / 2, 1 - explained)


class SizeLaws:
    """One trend for every run of adjacent stages that was executed as one task."""

    def __init__(self) -> None:
        self._trends: dict[tuple[str, ...], SizeTrend] = {}

    def add(self, stages: tuple[str, ...], size_bytes: int, time_s: float) -> None:
        self._trends.setdefault(stages, SizeTrend()).add(size_bytes, time_s)

    def law(self, stages: tuple[str, ...]) -> SizeLaw | None:
        trend = self._trends.get(stages)
        return trend.law() if trend else None
