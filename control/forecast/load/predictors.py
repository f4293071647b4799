"""Predictors of the rate: the present level, trends, seasons, and the past errors of each.

Each predicts a number of bins ahead from what was known at that time, so all are judged by the same past.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import log, sqrt

import numpy as np

from control.forecast.load.arrivals import BIN_S, Array

# The present rate: the mean since it last changed, by a sequential test.
#
# Arrivals are counted a turn at a time. At each turn every suffix of 1, 2, 4, 8 … turns is compared with what came
# before it, by the logarithm of the likelihood ratio of "two rates" against "one rate" for Poisson counts: Page's test
# for a change of a mean, with the rates and the time of the change estimated (Lai, Sequential changepoint detection in
# quality control and dynamical systems, 1995). So a jump is seen in a turn or two, a small change when it has lasted,
# and the noise of a constant load hardly ever; and the mean of what is left grows ever more certain. Arrivals that
# scatter more than independent users do must differ by as much more.

_NEWS = 12.0
"""Log likelihood ratio of a change where none was of late: one false alarm in some hours of turns."""
_MORE_NEWS = 6.0
"""The same where the rate moves anyway."""
_TURNS_KEPT = 4800
"""Twenty minutes of turns."""
_TELLING = 40
"""Bins from which their scatter is told."""
_KEPT = 0.95
"""Share of the differences that is kept."""
_MOST_DISPERSED = 10.0
_SHIFT = 0.02
"""Share by which a rate that is set must change to have changed."""


class Level:
    """Counted, or set: of a rate that is set there is nothing to estimate."""

    def __init__(self) -> None:
        self._times: list[float] = []
        self._counts: list[float] = []
        """Running totals at these times, since the last change."""
        self._reference: float | None = None
        """What it was set to when it last changed."""
        self.changed_s = float("-inf")
        self.rate_per_s = 0.0
        self.error_per_s = 0.0
        """Standard error of the rate."""

    def set(self, now_s: float, rate_per_s: float) -> None:
        """The source is set to ``rate_per_s``."""
        self._times.clear()
        self._counts.clear()
        if self._reference is None:
            self._reference = rate_per_s
        elif abs(rate_per_s - self._reference) > _SHIFT * self._reference:
            self._reference, self.changed_s = rate_per_s, now_s
        self.rate_per_s, self.error_per_s = rate_per_s, 0.0

    @property
    def turns(self) -> int:
        """Counted since the last change."""
        return max(0, len(self._times) - 1)

    def count(self, now_s: float, arrived: float, dispersion: float, *, moving: bool) -> None:
        """So many have arrived since the start; ``dispersion``: variance of counts over their mean."""
        self._times.append(now_s)
        self._counts.append(arrived)
        if len(self._times) > _TURNS_KEPT:
            del self._times[: _TURNS_KEPT // 2], self._counts[: _TURNS_KEPT // 2]
        cut = self._change(dispersion, _MORE_NEWS if moving else _NEWS)
        if cut is not None:
            del self._times[:cut], self._counts[:cut]
            self.changed_s = now_s
        self._estimate(dispersion)

    def _estimate(self, dispersion: float) -> None:
        span_s, items = self._times[-1] - self._times[0], self._counts[-1] - self._counts[0]
        if span_s > 0:
            self.rate_per_s = items / span_s
            self.error_per_s = sqrt(dispersion * max(items, 1.0)) / span_s

    def _change(self, dispersion: float, threshold: float) -> int | None:
        """Index from which on the rate is another, or ``None``."""
        last, suffix, best, where = len(self._times) - 1, 1, threshold * dispersion, None
        while suffix < last:
            ratio = self._ratio(last - suffix)
            if ratio > best:
                best, where = ratio, last - suffix
            suffix *= 2
        return where

    def _ratio(self, at: int) -> float:
        """Log likelihood ratio of a change at this index."""
        before, after = self._counts[at] - self._counts[0], self._counts[-1] - self._counts[at]
        before_s, after_s = self._times[at] - self._times[0], self._times[-1] - self._times[at]
        if before_s <= 0 or after_s <= 0:
            return 0.0
        pooled = (before + after) / (before_s + after_s)
        return _surprise(before, before_s, pooled) + _surprise(after, after_s, pooled)


def dispersion_of(rates: Array, bin_s: float) -> float:
    """Variance of counts over their mean: 1 of independent users, more where they come in crowds. By the differences of
    neighbouring bins, the largest left out, which a rate that moves spoils least."""
    mean = float(rates.mean()) if len(rates) >= _TELLING else 0.0
    if mean <= 0:
        return 1.0
    squares = np.sort(np.diff(rates) ** 2)
    scatter = float(squares[: max(1, int(_KEPT * len(squares)))].mean()) / 2
    return min(_MOST_DISPERSED, max(1.0, scatter * bin_s / mean))


def _surprise(items: float, span_s: float, pooled_per_s: float) -> float:
    return items * log(items / (span_s * pooled_per_s)) if items > 0 else 0.0


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


# Estimate the present rate of counted arrivals, and its trend, with filters of several memory lengths, judged by their
# past forecasts.
#
# A level that stays until a test finds it changed (:mod:`control.forecast.load.level`) is the best estimate for a load
# of jumps and rests, and slow for one that drifts. So beside it stand discounted least squares, a mean and a line
# each, of memories from short to long (Brown, Smoothing, forecasting and prediction of discrete time series, 1963;
# gains of the expanding memory at the start: Morrison, Introduction to sequential smoothing and prediction, 1969).

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
        """Return what each expects in ``span_s``, items/s."""
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
