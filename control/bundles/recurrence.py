"""Recognize loads that recur, and forecast them from what followed the last time.

Recent loads are compared with all that are remembered. Where they occurred before, what followed then is expected to
follow now. So no period has to be known, and the end of a plateau is told from its middle by what led to the plateau.
"""

from math import log

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


class Recurrence:
    """Remembers logarithms of loads in bins of as many items each."""

    BINS = 4096
    FINEST = 64
    """Items of a bin at the start. When the memory is full, its older half is forgotten if loads recur within a quarter
    of it; else it is kept with bins twice as wide, so that longer recurrences fit."""
    EVERY = 32
    """New bins after which it looks for a recurrence again."""
    SHORTEST = 32
    """Smallest number of bins that are compared."""
    VARIED = log(1.3) ** 2
    """Smallest variance of compared bins: a plateau is like any other plateau."""
    ALIKE = 0.05
    """Mean squared difference of two recurrences at most, as a share of their variance."""

    def __init__(self) -> None:
        self._values = np.zeros(self.BINS)
        self._from = 0
        """First item of the first bin."""
        self._width = self.FINEST
        self._filled = 0
        """Number of known bins; the last one may still change."""
        self._looked = 0
        self.lag = 0
        """Distance to the last recurrence, in bins; 0 while nothing recurs."""

    def learn(self, first: int, items: int, value: float) -> None:
        """The load of ``items`` from ``first`` on."""
        while (last := self._bin(first + items - 1)) >= self.BINS:
            self._make_room()
        self._values[min(self._filled, last) : last + 1] = value
        self._filled = last + 1
        if self._filled - self._looked >= self.EVERY:
            self._looked = self._filled
            self.lag = _lag(self._values[: self._filled], self)

    def change(self, since: float, until: float) -> float:
        """By how much the logarithm of the load changed between these items the last time; 0 where that is unknown."""
        now, then = self._bin(since) - self.lag, self._bin(until) - self.lag
        if not self.lag or not 0 <= now <= then < self._filled:
            return 0.0
        return float(self._values[then] - self._values[now])

    def shift(self, by: float) -> None:
        """The law has another shape: all loads are ``by`` higher."""
        self._values[: self._filled] += by

    def _bin(self, item: float) -> int:
        return (int(item) - self._from) // self._width

    def _make_room(self) -> None:
        half = self.BINS // 2
        if 0 < self.lag <= self.BINS // 4:
            self._values[:half] = self._values[half:]
            self._from += half * self._width
            self._looked -= half
        else:
            self._values[:half] = self._values.reshape(half, 2).mean(axis=1)
            self._width, self._looked, self.lag = 2 * self._width, self._looked // 2, self.lag // 2
        self._filled = half


def _lag(known: Floats, limits: Recurrence) -> int:
    """The shortest lag after which the loads lately are like those before; 0 when there is none."""
    length = _telling(known, limits)
    if not length:
        return 0
    lately, apart = known[-length:], max(limits.SHORTEST, length // 2)
    differences = _differences(known[:-apart], lately)
    alike = np.flatnonzero(differences <= limits.ALIKE * float(lately.var()))
    if not alike.size:
        return 0
    newest = alike[alike > alike[-1] - length // 2]
    return int(len(known) - length - newest[np.argmin(differences[newest])])


def _telling(known: Floats, limits: Recurrence) -> int:
    """Return how many of the newest bins vary enough to be told from others; 0 when none do."""
    length = limits.SHORTEST
    while 3 * length // 2 <= len(known):
        if known[-length:].var() >= limits.VARIED:
            return length
        length += length // 2
    return 0


def _differences(known: Floats, lately: Floats) -> Floats:
    """Largest mean squared difference of two recurrences, as a share of their variance."""
    length = len(lately)
    squares = np.concatenate(([0.0], np.cumsum(known**2)))
    energy = squares[length:] - squares[:-length] + float(lately @ lately)
    return (energy - 2 * np.correlate(known, lately, "valid")) / length
