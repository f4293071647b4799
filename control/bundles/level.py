"""Estimate and forecast the load (seconds per item) with a bank of filters, weighted by their recent forecast errors.

Each is an α–β filter of the logarithm of the load over the serial number of items: a level, and a slope per item. A
filter is scored on the forecast that it made when a bundle was opened, against the load measured for that bundle.
"""

from dataclasses import dataclass
from math import exp, log, sqrt

STEEPEST = log(2.0)
"""Largest change that a slope may forecast, as a logarithm: to twice the load, or to half of it."""
CAP = 0.1
"""Largest squared error that counts: no filter can forecast a jump, so a larger error does not rank the filters."""
FORGET = 0.95
"""Factor by which older errors are discounted at each bundle: they count half after about 14 bundles."""
SAY = 0.2
"""Rate at which errors reduce a filter's weight. 0.5 would be the likelihood of independent normal errors; it is less
because the errors of bundles that are in flight at the same time are correlated."""
LEAST_VARIANCE = 1e-9
GAINS = (0.5, 0.25, 0.12, 0.06, 0.03)


@dataclass(slots=True)
class Filter:
    """An α–β filter; its ``gain`` is α and its ``trend`` β. With a ``trend`` of 0 it has a level and no slope."""

    gain: float
    trend: float
    level: float = 0.0
    slope: float = 0.0
    at: float = 0.0
    seen: int = 0
    loss: float = 0.0

    def told(self, at: float) -> float:
        """Return the expected logarithm of the load at item ``at``."""
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
    """Estimates the present load and forecasts the load of the next bundles."""

    JUMP = 4.0
    """Error of a forecast, in standard deviations, beyond which the load has jumped."""
    LEAST_JUMP = log(1.1)
    SPREAD_GAIN = 0.02

    def __init__(self) -> None:
        self._filters = [Filter(gain, trend) for gain in GAINS for trend in (0.0, gain * gain / (2 - gain))]
        self._reference = self._filters[3]
        self._variance = 0.01
        self.seen = 0

    @property
    def spread(self) -> float:
        """Standard deviation of the load from bundle to bundle, relative to the load."""
        return sqrt(self._variance)

    @property
    def at(self) -> float:
        """Serial number of the item up to which loads were measured."""
        return self._reference.at

    @property
    def now(self) -> float:
        """Logarithm of the load at item ``at``."""
        return self._reference.level

    def forecasts(self, at: float) -> tuple[float, ...]:
        """Return each filter's expected logarithm of the load at item ``at``."""
        return tuple(each.told(at) for each in self._filters)

    def expected(self, forecasts: tuple[float, ...]) -> float:
        """Return the mean of ``forecasts``, each weighted by how small its filter's recent errors were."""
        least = min(each.loss for each in self._filters)
        variance = max(self._variance, LEAST_VARIANCE)
        weights = [exp(SAY * (least - each.loss) / variance) for each in self._filters]
        return sum(weight * told for weight, told in zip(weights, forecasts, strict=True)) / sum(weights)

    def learn(self, at: float, value: float, forecasts: tuple[float, ...]) -> bool:
        """Learn the logarithm of a bundle's load and the errors of its ``forecasts``; return True if it jumped."""
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
        """Add ``by`` to all logarithms of loads, after the shape of the cost of a bundle was estimated anew."""
        for each in self._filters:
            each.level += by
