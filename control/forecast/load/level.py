"""The present rate: the mean since it last changed, by a sequential test.

Arrivals are counted a turn at a time. At each turn every suffix of 1, 2, 4, 8 … turns is compared with what came before
it, by the logarithm of the likelihood ratio of "two rates" against "one rate" for Poisson counts: Page's test for a
change of a mean, with the rates and the time of the change estimated (Lai, Sequential changepoint detection in quality
control and dynamical systems, 1995). So a jump is seen in a turn or two, a small change when it has lasted, and the
noise of a constant load hardly ever; and the mean of what is left grows ever more certain. Arrivals that scatter more
than independent users do must differ by as much more.
"""

from __future__ import annotations

from math import log, sqrt

import numpy as np

from control.forecast.load.bins import Array

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
