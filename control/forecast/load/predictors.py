"""Simple predictors of the rate, and how far off each of them has been.

Each says what it expects a number of bins ahead, from what was known at that time; so all are judged by the same past.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from control.forecast.load.bins import Array

_TREND_BINS = 8
"""A line through 4 s."""
_SEASONS = 3
"""Past periods that a season is the mean of."""


@dataclass(frozen=True, slots=True)
class Past:
    """``rates`` of all bins, and what was taken as the present rate at the end of each."""

    rates: Array
    levels: Array
    period: int | None
    counted: bool


@dataclass(frozen=True, slots=True)
class Track:
    """What a predictor expects, and what it would have expected."""

    name: str
    ahead: Array
    """Of the next bins, items/s."""
    errors: Array
    """Rate less expectation, of the newest bins, oldest first."""
    row: int | None = None
    """Of the filter that says so, where it is one: what it expects changes at every turn."""


def present(past: Past, bins: int, judged: int) -> Track:
    """That it stays as it is."""
    errors = past.rates[bins:] - past.levels[:-bins]
    return Track("the present rate", np.full(bins, past.levels[-1]), errors[-judged:])


def trend(past: Past, bins: int, judged: int) -> Track | None:
    """That a set rate goes on as in the last seconds: a line by their slope."""
    count = min(len(past.rates), judged + bins + _TREND_BINS)
    if count < _TREND_BINS + bins + 2:
        return None
    rates = past.rates[-count:]
    at = np.arange(_TREND_BINS) - (_TREND_BINS - 1) / 2
    weights = at / float(at @ at)
    slopes = np.convolve(rates, weights[::-1], mode="valid")
    ends = rates[_TREND_BINS - 1 :]
    errors = rates[_TREND_BINS - 1 + bins :] - np.maximum(0.0, ends + bins * slopes)[:-bins]
    ahead = np.maximum(0.0, ends[-1] + slopes[-1] * np.arange(1, bins + 1))
    return Track("the trend", ahead, errors[-judged:])


def season(past: Past, bins: int, judged: int) -> Track | None:
    """That it is as it was a period ago: the mean of so many of them, at the same place. It looks a bin further, for
    the period is known to a bin."""
    bins += 1
    period, rates = past.period, past.rates
    if period is None or len(rates) < 2 * period:
        return None
    times = min(_SEASONS, len(rates) // period)
    rates = _smoothed(rates) if past.counted else rates
    lagged = [rates[len(rates) - back * period : len(rates) - back * period + bins] for back in range(1, times + 1)]
    ahead = np.mean([each[:bins] if len(each) == bins else np.resize(each, bins) for each in lagged], axis=0)
    errors = past.rates[period:] - rates[:-period]
    return Track("the season", ahead, errors[-judged:])


def _smoothed(rates: Array) -> Array:
    """Over three bins: a count scatters."""
    padded = np.concatenate((rates[:1], rates, rates[-1:]))
    return np.convolve(padded, np.ones(3) / 3, mode="valid")
