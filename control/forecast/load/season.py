"""A season that shows by itself: after how long the rate repeats."""

from __future__ import annotations

import numpy as np

from control.forecast.load.bins import Array

_SHORTEST = 8
"""Bins: 4 s, what a manager can follow anyway."""
_UNLIKE = 0.35
"""Mean squared difference after a period, as a share of that of unrelated times, above which nothing repeats."""


def season_of(rates: Array) -> int | None:
    """Bins of the period after which ``rates`` repeat, seen twice at least; ``None`` where none shows.

    The shortest lag whose differences are about as small as the smallest: multiples of a period repeat as well.
    """
    count = len(rates)
    if count < 4 * _SHORTEST:
        return None
    lags = np.arange(_SHORTEST, count // 2 + 1)
    smooth = np.convolve(rates, np.ones(3) / 3, mode="same")
    variance = float(smooth.var())
    if variance <= 1e-3 * float(smooth.mean()) ** 2 + 1e-12:
        return None
    unlike = _differences(smooth)[lags] / (2 * variance)
    rises = np.flatnonzero(unlike > _UNLIKE)
    if not rises.size:
        return None
    later = lags > lags[rises[0]]  # past the lags at which a slow rate resembles itself
    candidates = np.where(later, unlike, np.inf)
    least = float(candidates.min())
    if least > _UNLIKE:
        return None
    near = np.flatnonzero(candidates <= max(1.25 * least, least + 0.02))
    first = int(near[0])
    end = first
    while end + 1 in near:
        end += 1
    return int(lags[first + int(np.argmin(candidates[first : end + 1]))])


def _differences(values: Array) -> Array:
    """Mean squared difference of ``values`` from themselves, by lag; all at once, by their autocorrelation."""
    count, around = len(values), values - values.mean()
    products = np.correlate(around, around, mode="full")[count - 1 :]
    squares = np.concatenate(([0.0], np.cumsum(around**2)))
    from_lag, to_lag = squares[-1] - squares[:-1], squares[:0:-1]
    differences: Array = np.maximum(0.0, from_lag + to_lag - 2 * products) / np.arange(count, 0, -1)
    return differences


def completed(rates: Array) -> Array:
    """``rates`` with what is unknown (NaN) at their end filled in: as it was a period before, or where none shows, the
    mean of the rest."""
    known = rates[~np.isnan(rates)]
    if not known.size:
        return known
    period, missing = season_of(known), len(rates) - len(known)
    filling = np.full(missing, known.mean()) if period is None else np.resize(known[-period:], missing)
    return np.concatenate((known, filling))
