"""Estimate and forecast the load with a bank of filters, weighted by how well they forecast it lately.

Each is an α–β filter of the logarithm of the load over the serial number of items: a level, and a slope per item. A
filter is scored on the forecast that it made when a bundle was opened, against the load measured for that bundle.
"""

from dataclasses import dataclass
from math import exp, log, sqrt

STEEPEST = log(2.0)
"""Steepest slope that is followed: to twice the load, or half of it."""
CAP = 0.1
"""Largest squared error that counts: a jump that nobody could foresee says nothing about the filters."""
FORGET = 0.95
"""An error counts half after about 14 more bundles."""
SAY = 0.2
"""How fast a filter loses weight by its errors. One half is the likelihood of independent normal errors, but errors of
bundles that are in flight at the same time depend on each other."""
LEAST_VARIANCE = 1e-9
GAINS = (0.5, 0.25, 0.12, 0.06, 0.03)


@dataclass(slots=True)
class Filter:
    """``trend`` of 0 is a level without a slope."""

    gain: float
    trend: float
    level: float = 0.0
    slope: float = 0.0
    at: float = 0.0
    seen: int = 0
    loss: float = 0.0

    def told(self, at: float) -> float:
        """Expected logarithm of the load at item ``at``."""
        moved = self.slope * (at - self.at)
        return self.level + max(-STEEPEST, min(STEEPEST, moved))

    def learn(self, at: float, value: float) -> None:
        self.seen += 1
        gone = at - self.at
        expected = self.told(at)
        error = value - expected
        self.level = expected + max(self.gain, 1 / self.seen) * error
        if self.trend and self.seen > 1 and gone > 0:
            self.slope += self.trend * error / gone
        self.at = at

    def restart(self, at: float, value: float) -> None:
        self.level, self.slope, self.at, self.seen = value, 0.0, at, 1


class Level:
    """The load now and soon."""

    JUMP = 4.0
    """Standard deviations from what is expected, beyond which the load has jumped."""
    LEAST_JUMP = log(1.1)
    SPREAD_GAIN = 0.02

    def __init__(self) -> None:
        self._filters = [Filter(gain, trend) for gain in GAINS for trend in (0.0, gain * gain / (2 - gain))]
        self._reference = self._filters[3]
        self._variance = 0.01
        self.seen = 0

    @property
    def spread(self) -> float:
        """Standard deviation of the load from bundle to bundle, as a share of it."""
        return sqrt(self._variance)

    @property
    def at(self) -> float:
        """The item up to which it has seen loads."""
        return self._reference.at

    @property
    def now(self) -> float:
        """The logarithm of the load at that item."""
        return self._reference.level

    def forecasts(self, at: float) -> tuple[float, ...]:
        """Return what each filter expects at item ``at``."""
        return tuple(each.told(at) for each in self._filters)

    def expected(self, forecasts: tuple[float, ...]) -> float:
        """Return what to go by: the mean of ``forecasts``, each with the weight that its filter has earned."""
        least = min(each.loss for each in self._filters)
        variance = max(self._variance, LEAST_VARIANCE)
        weights = [exp(SAY * (least - each.loss) / variance) for each in self._filters]
        return sum(weight * told for weight, told in zip(weights, forecasts, strict=True)) / sum(weights)

    def learn(self, at: float, value: float, forecasts: tuple[float, ...]) -> bool:
        """Takes the load of a bundle and what was forecast of it; whether it has jumped."""
        for each, forecast in zip(self._filters, forecasts, strict=True):
            each.loss = FORGET * each.loss + min((value - forecast) ** 2, CAP)
        self.seen += 1
        error = value - self._reference.told(at)
        if self.seen == 1 or abs(error) > max(self.LEAST_JUMP, self.JUMP * self.spread):
            for each in self._filters:
                each.restart(at, value)
            return True
        self._variance += self.SPREAD_GAIN * (error * error - self._variance)
        for each in self._filters:
            each.learn(at, value)
        return False

    def shift(self, by: float) -> None:
        """The law has another shape: all loads are ``by`` higher."""
        for each in self._filters:
            each.level += by
