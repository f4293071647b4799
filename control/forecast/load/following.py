"""The present rate of counted arrivals, and where it goes: filters of several memories, judged by what they said.

A level that stays until a test finds it changed (:mod:`control.forecast.load.level`) is the best there is for a load of
jumps and rests, and slow for one that drifts. So beside it stand discounted least squares, a mean and a line each,
of memories from short to long (Brown, Smoothing, forecasting and prediction of discrete time series, 1963; gains of the
expanding memory at the start: Morrison, Introduction to sequential smoothing and prediction, 1969).
"""

from __future__ import annotations

from collections import deque

import numpy as np

from control.forecast.load.bins import BIN_S, Array

MEMORIES_S = (1.0, 2.0, 4.0, 8.0, 16.0)
"""In which the weight of what was counted falls to 1/e."""
_ALIKE = 2.0
"""Standard errors of a new level within which a filter has seen it come."""
_ALL = np.array([*MEMORIES_S, *MEMORIES_S])
_LINES = np.arange(len(_ALL)) >= len(MEMORIES_S)
NAMES = tuple("the trend" if line else "the present rate" for line in _LINES)


class Following:
    """Of one app. A row each: means, then lines, from short to long memory."""

    def __init__(self, kept: int) -> None:
        """``kept``: bins of which it is remembered what the filters said."""
        self._levels = np.zeros(len(_ALL))
        self._slopes = np.zeros(len(_ALL))
        self._turns = np.zeros(len(_ALL))
        """Since each began anew."""
        self._said: deque[tuple[Array, Array]] = deque(maxlen=kept)

    def count(self, span_s: float, rate_per_s: float) -> None:
        """So many came within a turn of ``span_s``, items/s."""
        self._turns += 1
        n, fades = self._turns, np.exp(-span_s / _ALL)
        mean = np.maximum(1 / n, 1 - fades)
        near = np.maximum(2 * (2 * n - 1) / (n * (n + 1)), 1 - fades**2)
        slope = np.where(n > 1, np.maximum(6 / (n * (n + 1)), (1 - fades) ** 2), 0.0)
        expected = self._levels + self._slopes * span_s
        off = rate_per_s - expected
        self._levels = np.maximum(0.0, expected + np.where(_LINES, np.minimum(1.0, near), mean) * off)
        self._slopes = np.where(_LINES, self._slopes + slope * off / span_s, 0.0)

    def changed(self, level_per_s: float, error_per_s: float, turns: int) -> None:
        """The rate is another one since so many ``turns``. Who has not seen it come begins anew; a line keeps its
        gains, for a slope of two or three turns would be noise."""
        late = np.abs(self._levels - level_per_s) > _ALIKE * error_per_s
        self._levels[late], self._slopes[late] = level_per_s, 0.0
        self._turns[late & ~_LINES] = max(1, turns)

    def close(self) -> None:
        """A bin ends: what is said now will be compared with what comes."""
        self._said.append((self._levels, self._slopes))

    def ahead(self, span_s: float) -> Array:
        """What each expects in ``span_s``, items/s."""
        return np.maximum(0.0, self._levels + self._slopes * span_s)

    def errors(self, rates: Array, bins: int) -> Array:
        """``rates`` less what was expected ``bins`` before, of the newest bins, oldest first: (filters, bins)."""
        count = min(len(self._said), len(rates)) - bins
        if count <= 0:
            return np.zeros((len(_ALL), 0))
        said = list(self._said)[-count - bins : -bins]
        levels, slopes = (np.array([each[kind] for each in said]).T for kind in (0, 1))
        middle_s = (bins - 0.5) * BIN_S
        errors: Array = rates[-count:] - np.maximum(0.0, levels + slopes * middle_s)
        return errors
