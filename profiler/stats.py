"""Bounded, time-stamped samples that are cheap to add and summarized only when they are read.

If items come in bundles, a row stands for several items and has their number as its weight.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from math import inf

import numpy as np
import numpy.typing as npt

from profiler.snapshot import PERCENTS, LatencyStats

Floats = npt.NDArray[np.float64]


FEW = 1024
"""Number of newest rows that are kept regardless of their age."""


class Samples:
    """Rows ``(at_s, x, y, z)``, newest last; the owner defines ``x``, ``y`` and ``z``. Times must not decrease. A row
    stands for ``items`` items.

    Between ``capacity`` and twice as many rows are kept, so that adding costs O(1) amortised. Rows older than
    ``keep_s`` may be dropped earlier, except for the newest ``FEW``.
    """

    __slots__ = ("_at", "_bundled", "_capacity", "_items", "_keep_s", "_limit", "_x", "_y", "_z")

    def __init__(self, capacity: int, keep_s: float = inf) -> None:
        self._at, self._x, self._y, self._z = array("d"), array("d"), array("d"), array("d")
        self._items = array("d")
        """Weights of the rows; empty while each row stands for one item."""
        self._bundled = False
        self._capacity, self._keep_s = capacity, keep_s
        self._limit = 2 * (capacity if keep_s == inf else min(capacity, FEW))

    def __len__(self) -> int:
        return len(self._at)

    def add(self, at_s: float, x: float = 0.0, y: float = 0.0, z: float = 0.0, items: float = 1.0) -> None:
        """Append one row. This is the hot path: four appends and two comparisons."""
        if items != 1.0 or self._bundled:
            self._weigh(items)
        self._at.append(at_s)
        self._x.append(x)
        self._y.append(y)
        self._z.append(z)
        if len(self._at) >= self._limit:
            self._trim()

    def clear(self) -> None:
        for column in self._columns():
            del column[:]

    def at(self, index: int) -> float:
        """Return the time of the row at ``index``, negative from the end. Raises: IndexError if there is none."""
        return self._at[index]

    def last_x(self) -> float:
        """Return ``x`` of the newest row. Raises: IndexError if there is none."""
        return self._x[-1]

    def first_at_or_after(self, at_s: float) -> int:
        """Return the index of the first row at or after ``at_s``; ``len`` if there is none."""
        return bisect_left(self._at, at_s)

    def first_after(self, at_s: float) -> int:
        """Return the index of the first row later than ``at_s``; ``len`` if there is none."""
        return bisect_right(self._at, at_s)

    def times(self, start: int = 0) -> Floats:
        """Return ``at_s`` of the rows from index ``start`` on, as a copy."""
        return np.frombuffer(self._at[start:], dtype=np.float64)

    def xs(self, start: int = 0) -> Floats:
        """Return ``x`` of the rows from index ``start`` on, as a copy."""
        return np.frombuffer(self._x[start:], dtype=np.float64)

    def ys(self, start: int = 0) -> Floats:
        """Return ``y`` of the rows from index ``start`` on, as a copy."""
        return np.frombuffer(self._y[start:], dtype=np.float64)

    def zs(self, start: int = 0) -> Floats:
        """Return ``z`` of the rows from index ``start`` on, as a copy."""
        return np.frombuffer(self._z[start:], dtype=np.float64)

    def weights(self, start: int = 0) -> Floats | None:
        """Return the number of items of each row from index ``start`` on, as a copy; None: one item per row."""
        return np.frombuffer(self._items[start:], dtype=np.float64) if self._bundled else None

    def items(self, start: int = 0, end: int | None = None) -> int:
        """Return the number of items in the rows from ``start`` to before ``end``."""
        if self._bundled:
            return round(float(np.frombuffer(self._items[start:end], dtype=np.float64).sum()))
        return max(0, (len(self._at) if end is None else end) - start)

    def _weigh(self, items: float) -> None:
        """Add the weight of a row; at the first bundle, all rows before get the weight 1."""
        if not self._bundled:
            self._bundled = True
            self._items = array("d", [1.0]) * len(self._at)
        self._items.append(items)

    def _columns(self) -> tuple[array[float], ...]:
        return (self._at, self._x, self._y, self._z, self._items)

    def _trim(self) -> None:
        recent = len(self._at) - self.first_at_or_after(self._at[-1] - self._keep_s)
        kept = min(self._capacity, max(recent, FEW))
        for column in self._columns():
            del column[:-kept]
        self._limit = 2 * kept


class Histogram:
    """A histogram as in Prometheus: cumulative counts of values up to each bound, since the start."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = np.asarray(bounds)
        self._counts = np.zeros(len(bounds) + 1)
        self._sum = 0.0
        self._counted_s = -inf

    def count(self, samples: Samples) -> None:
        """Count ``x`` in the rows that are newer than those counted before."""
        first = samples.first_after(self._counted_s)
        if first < len(samples):
            self._add(samples.xs(first), samples.weights(first))
            self._counted_s = samples.at(-1)

    def _add(self, values: Floats, weights: Floats | None) -> None:
        place = np.searchsorted(self._bounds, values)  # a value on a bound counts below it
        self._counts += np.bincount(place, weights, minlength=len(self._counts))
        self._sum += float(values.sum()) if weights is None else product(values, weights)

    @property
    def counts(self) -> tuple[int, ...]:
        """Cumulative counts of values up to each bound; the last is the count of all values."""
        return tuple(np.rint(np.cumsum(self._counts)).astype(int).tolist())

    @property
    def sum(self) -> float:
        return self._sum


def latency_stats(latencies_s: Floats, weights: Floats | None = None) -> LatencyStats | None:
    """Return mean and percentiles; a value stands for its weight in items. ``None`` without samples, never zero."""
    if not latencies_s.size:
        return None
    p50, p95, p99, *spread = percentiles(latencies_s, weights, (50, 95, 99, *PERCENTS))
    items = latencies_s.size if weights is None else round(float(weights.sum()))
    return LatencyStats(mean_of(latencies_s, weights), p50, p95, p99, items, tuple(spread))


def product(values: Floats, weights: Floats) -> float:
    """Return the sum of values times weights. BLAS is not used: from about ten thousand values on it has threads of its
    own, which spin after a call and take cores from the stages."""
    return float(np.einsum("i,i->", values, weights))


def mean_of(values: Floats, weights: Floats | None) -> float:
    """Return the mean of at least one value; each stands for ``weights`` items."""
    return float(values.mean() if weights is None else product(values, weights) / weights.sum())


def percentiles(values: Floats, weights: Floats | None, percents: tuple[float, ...]) -> list[float]:
    """Return linearly interpolated percentiles; of weighted values, between the middles of their weights."""
    if weights is None:
        return _between(np.sort(values), np.asarray(percents) * ((values.size - 1) / 100))
    order = np.argsort(values)
    ordered, weighed = values[order], weights[order]
    middles = np.cumsum(weighed) - weighed / 2
    first, last = middles[0], middles[-1]
    wanted: list[float] = np.interp(first + (last - first) / 100 * np.asarray(percents), middles, ordered).tolist()
    return wanted


def _between(ordered: Floats, places: Floats) -> list[float]:
    """Return the values at these indices of a sorted array, interpolated for fractional indices."""
    below = places.astype(np.intp)
    low, high = ordered[below], ordered[np.minimum(below + 1, ordered.size - 1)]
    found: list[float] = (low + (high - low) * (places - below)).tolist()
    return found


def slope_per_s(times_s: Floats, values: Floats, *, min_span_s: float) -> float | None:
    """Return the least-squares slope of ``values`` per second; ``None`` below three samples or ``min_span_s``."""
    if times_s.size < 3 or times_s[-1] - times_s[0] < min_span_s:
        return None
    centred = times_s - times_s.mean()
    return product(centred, values) / product(centred, centred)
