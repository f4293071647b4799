"""Recognize loads that recur, and forecast them from the loads that followed the last time.

Recent loads are compared with all remembered loads. If they occurred before, the loads that followed then are expected
now. So no period has to be known. The loads before a plateau tell how far into it the stream is.
"""

from math import log

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


class Recurrence:
    """Remembers logarithms of loads in bins of an equal number of items."""

    BINS = 4096
    FINEST = 64
    """Items of a bin at the start. When the memory is full, its older half is forgotten if loads recur within a quarter
    of the memory; otherwise bins are merged in pairs, so that longer recurrences fit."""
    EVERY = 32
    """Number of new bins after which the next recurrence is searched for."""
    SHORTEST = 32
    """Smallest number of bins that are compared."""
    VARIED = log(1.3) ** 2
    """Smallest variance of compared bins: all plateaus look alike, so a plateau alone identifies nothing."""
    ALIKE = 0.05
    """Largest mean squared difference of two recurrences, as a share of their variance."""

    def __init__(self) -> None:
        self._values = np.zeros(self.BINS)
        self._from = 0
        """First item of the first bin."""
        self._width = self.FINEST
        self._filled = 0
        """Number of known bins; the last one may still change."""
        self._looked = 0
        self.lag = 0
        """Distance to the last recurrence, in bins; 0 if nothing recurs."""

    def learn(self, first: int, items: int, value: float) -> None:
        """Store ``value``, the logarithm of the load of ``items`` items from item ``first`` on."""
        while (last := self._bin(first + items - 1)) >= self.BINS:
            self._make_room()
        self._values[min(self._filled, last) : last + 1] = value
        self._filled = last + 1
        if self._filled - self._looked >= self.EVERY:
            self._looked = self._filled
            self.lag = _lag(self._values[: self._filled], self)

    def change(self, since: float, until: float) -> float:
        """Return the change of the log load between these items one period ago; 0 if unknown."""
        now, then = self._bin(since) - self.lag, self._bin(until) - self.lag
        if not self.lag or not 0 <= now <= then < self._filled:
            return 0.0
        return float(self._values[then] - self._values[now])

    def shift(self, by: float) -> None:
        """Add ``by`` to all logarithms of loads, after the estimated cost of a bundle has changed."""
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
    """Return the shortest lag, in bins, at which recent loads resemble earlier ones; 0 if there is none."""
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
    """Return the number of newest bins that vary enough to be recognized; 0 if even all of them vary too little."""
    length = limits.SHORTEST
    while 3 * length // 2 <= len(known):
        if known[-length:].var() >= limits.VARIED:
            return length
        length += length // 2
    return 0


def _differences(known: Floats, lately: Floats) -> Floats:
    """Return the mean squared difference between ``lately`` and each stretch of ``known`` of the same length."""
    length = len(lately)
    squares = np.concatenate(([0.0], np.cumsum(known**2)))
    energy = squares[length:] - squares[:-length] + float(lately @ lately)
    return (energy - 2 * np.correlate(known, lately, "valid")) / length
