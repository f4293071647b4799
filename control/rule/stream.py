"""The model of the stream: past arrivals and stage times, turn by turn, and possible futures.

Futures are the periods after the most similar moments of the past, scaled to the present (analogue forecasting; Lorenz,
J. Atmos. Sci. 26, 1969). So they contain bursts, waves and runs of expensive items as these occurred. Until there is a
past, futures are drawn from a Poisson process whose rate has the error of its count.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from control.rule.news import ERRORS, News
from control.rule.settings import RuleSettings

Array = npt.NDArray[np.float64]

_KEPT = 16_384
"""Number of turns that are stored: about an hour."""
_FIRST = 20
"""Number of turns at the start at which no future begins: their rates are based on few items."""
_POOL = 4
"""Number of similar moments, as a multiple of the futures. Evenly spaced ones are used: neighbours are alike."""
_LOOKED = 1500
"""Maximum number of past moments that are compared with the present."""
_MOST_SCALED = 1.5
"""Logarithm of the largest factor by which a past rate is scaled to the present one."""
_GOLDEN = (math.sqrt(5) - 1) / 2
_TOLD_BY, _FEW_VARY = 2, 0.01
"""Smallest number of items that shows a changed time of a stage, and smallest squared coefficient of variation."""


@dataclass(frozen=True, slots=True)
class Futures:
    """Possible futures of the stream: one row per future, one column per step."""

    step_s: float
    items: Array
    """Number of arriving items, by future and step."""
    each_s: Array
    """Time of an item in seconds, by future, step and stage."""
    mean_s: Array
    """Mean time of an item in seconds, by stage."""

    @property
    def horizon_s(self) -> float:
        """Length of the futures, in seconds."""
        return self.step_s * int(self.items.shape[1])

    def at_most(self, per_s: float) -> Futures:
        """Return the futures with at most this rate in items/s, as a mean over each."""
        rate_per_s = self.items.mean(axis=1, keepdims=True) / self.step_s
        return replace(self, items=self.items * np.minimum(1.0, per_s / np.maximum(rate_per_s, 1e-9)))

    def announced(self, loads: Sequence[tuple[float, float, float]]) -> Futures:
        """Return the futures with planned loads: begin and end in seconds from now, and rate in items/s."""
        at_s = self.step_s * (np.arange(self.items.shape[1]) + 0.5)
        items = self.items.copy()
        for from_s, until_s, rate_per_s in loads:
            then = (from_s <= at_s) & (at_s < until_s)
            scatter = self.items[:, then] / max(float(self.items.mean()), 1e-9)
            items[:, then] = rate_per_s * self.step_s * np.clip(scatter, 0.5, 2.0)
        return replace(self, items=items)


class _Work:
    """A worker's mean time for an item, by stage, and the variance of an item's time in all stages."""

    def __init__(self, at_once: Sequence[int], items: float) -> None:
        """``items``: number of items over which the mean is taken."""
        self._at_once, self._items = np.array(at_once, dtype=np.float64), items
        self.each_s, self.lasting_s = np.zeros((2, len(at_once)))
        """Mean time of the latest items, and of all items since the last change, by stage."""
        self.seen = np.zeros(len(at_once))
        """Number of measured items, by stage."""
        self.variance = 0.0
        """Variance of the time in all stages, relative to the square of its mean."""
        self._since, self._lasted = np.zeros((2, len(at_once)))
        """Number of items since the last change of the time, and of the stream, by stage."""
        self._varies = np.zeros(len(at_once))
        """Variance of the logarithm of an item's time, by stage."""
        self._latest = np.zeros((2, len(at_once)))
        """Number of items and their total time since the last test for a change, by stage."""

    def follow(self, done: Array, busy_s: Array) -> Array:
        """Record a turn's items and times; return the mean time by stage, the usual one if no item finished."""
        finished, busy_s = done > 0, busy_s / self._at_once
        row = np.where(finished, busy_s / np.maximum(done, 1.0), self.each_s)
        before_s = np.where(self.seen > 0, self.each_s, row)
        self.seen += done
        self._since += done
        self._look(done, busy_s)
        off2 = _log_ratio(row, before_s) ** 2 * done
        self._varies += (off2 - self._varies) * np.minimum(1.0, done / np.clip(self.seen, 1.0, 300.0))
        weight = np.minimum(1.0, done / np.maximum(1.0, np.minimum(self._since, self._items)))
        self.each_s = self.each_s + (row - self.each_s) * weight
        self._lasted += done
        self.lasting_s = self.lasting_s + (row - self.lasting_s) * done / np.maximum(1.0, self._lasted)
        count = float(done[-1])
        if count and self.seen.min() > 5:
            off_s = float((busy_s - done * self.each_s).sum())
            share = min(1.0, count / min(float(self.seen.min()), 300.0))
            self.variance += (off_s**2 / count / max(float(self.each_s.sum()), 1e-9) ** 2 - self.variance) * share
        return row

    def restart(self) -> None:
        """Begin the long mean with the latest items, after a change of the stream."""
        self.lasting_s, self._lasted = self.each_s, np.minimum(self._lasted, self._items)

    def _look(self, done: Array, busy_s: Array) -> None:
        """Restart the mean of a stage whose latest times differ from it by more than chance explains."""
        self._latest += (done, busy_s)
        items, took_s = self._latest
        ripe = items >= _TOLD_BY
        mean_s = took_s / np.maximum(items, 1.0)
        error = np.sqrt(np.maximum(self._varies, _FEW_VARY) / np.maximum(items, 1.0))
        other = ripe & (self.seen > 10) & (np.abs(_log_ratio(mean_s, self.each_s)) > ERRORS * error)
        self.each_s = np.where(other, mean_s, self.each_s)
        self._since = np.where(other, items, self._since)
        self._latest[:, ripe] = 0.0


def _log_ratio(one: Array, other: Array) -> Array:
    """Return the logarithm of the ratio; times have a long tail, but their logarithms hardly have one."""
    told: Array = np.log(np.maximum(one, 1e-9) / np.maximum(other, 1e-9))
    return told


class Stream:
    """The past arrivals and stage times, and the futures that follow from them."""

    def __init__(self, at_once: Sequence[int], settings: RuleSettings) -> None:
        """``at_once``: concurrent calls per worker, by stage; a worker's time for an item is divided by it."""
        self._settings, stages = settings, len(at_once)
        self._turn_s = 0.25
        self._news = News()
        self._turns = 0
        # np.full, not np.zeros: zero pages are allocated at their first write, so a runner would grow for an hour.
        self._came = np.full(_KEPT + 1, 0.0)
        """Cumulative number of arrived items, by turn."""
        self._worked = np.full((2, _KEPT + 1), 0.0)
        """Cumulative number of finished items, and their work in seconds, by turn."""
        self._each_s = np.full((_KEPT, stages), 0.0)
        self._features = np.full((_KEPT, 3), 0.0)
        """Features of a moment: logarithms of the rate, of its ratio to the slow rate, and of the work per item."""
        self._elapsed_s, self._all = 0.0, 0.0
        self.rate_per_s = self.slow_per_s = 0.0
        self._work = _Work(at_once, settings.service_items)
        self._noise = _normal(2 * settings.futures * settings.steps).reshape(2, settings.futures, settings.steps)

    @property
    def each_s(self) -> Array:
        """The mean time of a worker for an item, by stage, in seconds."""
        return self._work.each_s

    @property
    def work_s(self) -> float:
        """Mean time of an item in all stages, in seconds."""
        return float(self.each_s.sum())

    @property
    def cv(self) -> float:
        """Coefficient of variation of an item's time in all stages; with few items, a lower limit applies."""
        least = _FEW_VARY / max(1.0, self.known / self._settings.service_items)
        return math.sqrt(min(max(self._work.variance, least), 16.0))

    @property
    def calm_s(self) -> float:
        """Time since the last change of rate or work per item, in seconds; 0 if the stream always moves."""
        return 0.0 if self._news.moving else (self._turns - self._news.since) * self._turn_s

    @property
    def known(self) -> int:
        """Number of measured items of the stage with the fewest."""
        return int(self._work.seen.min())

    def add(self, elapsed_s: float, arrived: float, done: Array, busy_s: Array, set_per_s: float | None = None) -> None:
        """Record a turn's arrived items, and finished items and their time by stage; ``set_per_s``: the set rate."""
        settings = self._settings
        if self._turns == _KEPT:
            self._forget()
        self._turn_s += (elapsed_s - self._turn_s) * (0.05 if self._turns else 1.0)
        self._elapsed_s += elapsed_s
        self._all += arrived
        rate = arrived / elapsed_s
        mean = (self._all + 1) / (self._elapsed_s + 1)
        if not self._turns:
            self.rate_per_s = self.slow_per_s = rate
        span_s = settings.fast_s + settings.fast_items / max(self.slow_per_s, 0.2 * mean)
        self.rate_per_s += (rate - self.rate_per_s) * min(1.0, elapsed_s / min(self._elapsed_s, span_s))
        self.slow_per_s += (rate - self.slow_per_s) * min(1.0, elapsed_s / min(self._elapsed_s, settings.slow_s))
        if set_per_s is not None:
            self.rate_per_s = set_per_s
        row = self._work.follow(done, busy_s)
        turn, floor = self._turns, 0.05 * mean
        self._came[turn + 1] = self._came[turn] + arrived
        count = float(done[-1])
        self._worked[:, turn + 1] = self._worked[:, turn] + (count, count * min(float(row.sum()), 4 * self.work_s))
        self._each_s[turn] = row
        level = math.log(self.rate_per_s + floor)
        self._features[turn] = (level, level - math.log(self.slow_per_s + floor), math.log(max(self.work_s, 1e-9)))
        self._turns += 1
        since = self._news.since
        self._news.look(self._turns, self._came, self._worked)
        if self._news.since != since:
            self._work.restart()

    def suppose(self, rate_per_s: float) -> None:
        """Scale the past to another present rate, in items/s."""
        if self.rate_per_s <= 0 or rate_per_s <= 0:
            return
        factor = rate_per_s / self.rate_per_s
        self._came *= factor
        self._features[:, 0] += math.log(factor)
        self.rate_per_s, self.slow_per_s = rate_per_s, factor * self.slow_per_s

    def stationary(self, step_s: float, steps: int) -> Futures:
        """Return futures in which the stream stays as since the last change: shuffled blocks of that time, as long as a
        usual future (block bootstrap; Künsch, Ann. Stat. 17, 1989). The work per item is that of other turns."""
        first, count = self._news.since, max(8, self._settings.futures * self._settings.steps // steps)
        stride = max(1, round(step_s / self._turn_s))
        length = min(steps, self._settings.steps, max(1, (self._turns - first) // (2 * stride)))
        blocks = math.ceil(steps / length)
        begins = max(1, self._turns - first - length * stride + 1)
        shares = (0.5 + _GOLDEN * np.arange(1, count * blocks + 1)) % 1.0
        begin = first + (shares * begins).astype(np.int64).reshape(count, blocks, 1)
        at = (begin + stride * np.arange(length)).reshape(count, blocks * length)[:, :steps]
        last = np.minimum(at + stride, self._turns)
        items = self._came[last] - self._came[at]
        shares = (0.5 + _GOLDEN * np.arange(1, count * steps + 1)) % 1.0
        of = first + (shares * max(1, self._turns - first - stride + 1)).astype(np.int64).reshape(count, steps, 1)
        each_s = self._each_s[np.minimum(of + np.arange(stride), self._turns - 1)].mean(axis=2)
        return Futures(stride * self._turn_s, items, each_s, self._work.lasting_s)

    def futures(self, horizon_s: float) -> Futures:
        """Return futures of the length of the horizon, rounded up to whole turns."""
        settings = self._settings
        stride = max(1, math.ceil(horizon_s / (settings.steps * self._turn_s)))
        step_s = stride * self._turn_s
        items, each_s = self._drawn(step_s)
        past = self._similar(stride * settings.steps)
        if len(past):
            now, count = self._turns - 1, len(past)
            at = past[:, None] + 1 + np.arange(settings.steps + 1)[None] * stride
            scale = np.exp(np.clip(self._features[now, 0] - self._features[past, 0], -_MOST_SCALED, _MOST_SCALED))
            items[:count] = np.diff(self._came[at], axis=1) * scale[:, None]
            after = at[:, :-1, None] + np.arange(stride)[None, None]
            before = np.maximum(0, past[:, None] - np.arange(8)[None])
            then_s = np.maximum(self._each_s[before].mean(axis=1), 1e-9)
            costs = np.clip(self.each_s / then_s, 0.2, 5.0)
            each_s[:count] = self._each_s[after].mean(axis=2) * costs[:, None, :]
        return Futures(step_s, items, each_s, self.each_s)

    def _similar(self, turns: int) -> npt.NDArray[np.int64]:
        """Return the past turns most similar to the present whose next ``turns`` are known: at most ``futures``."""
        last = self._turns - 1 - turns
        if last <= 2 * _FIRST:
            return np.zeros(0, np.int64)
        rows = np.arange(last, _FIRST, -max(1, last // _LOOKED))
        count = min(self._settings.futures, len(rows) // 8)
        if not count:
            return np.zeros(0, np.int64)
        off = self._features[rows] - self._features[self._turns - 1]
        far = off[:, 0] ** 2 + off[:, 1] ** 2 + 4.0 * off[:, 2] ** 2  # the work per item changes less often than rates
        pool = min(len(rows), _POOL * count)
        nearest = np.argpartition(far, pool - 1)[:pool]
        near = np.sort(rows[nearest[far[nearest] <= self._settings.similar**2]])
        count = min(count, len(near))
        chosen: npt.NDArray[np.int64] = near[np.arange(count) * len(near) // max(1, count)]
        return chosen

    def _drawn(self, step_s: float) -> tuple[Array, Array]:
        """Return futures of a Poisson process whose rate has the error of a count over the last seconds."""
        futures = self._settings.futures
        counted = max(1.0, min(self._elapsed_s, 5.0) * self.rate_per_s)
        scatter = math.sqrt(self._news.dispersion)
        spread = (2 * (np.arange(futures) + 0.5) / futures - 1) * 1.7 * scatter / math.sqrt(counted)  # 1.7: even
        mean = np.maximum(self.rate_per_s * (1 + spread), 0.1 * self.rate_per_s)[:, None] * step_s
        items = np.maximum(0.0, mean + scatter * np.sqrt(mean) * self._noise[0])
        costs = np.clip(1 + self.cv / np.sqrt(np.maximum(items, 1.0)) * self._noise[1], 0.1, 5.0)
        return items, costs[:, :, None] * self.each_s

    def _forget(self) -> None:
        """Drop the oldest quarter of the turns."""
        gone = _KEPT // 4
        for kept in (self._came, self._each_s, self._features):
            kept[:-gone] = kept[gone:].copy()
        self._worked[:, :-gone] = self._worked[:, gone:].copy()
        self._turns -= gone
        self._news.forget(gone)


def _normal(count: int) -> Array:
    """Return evenly spread values of a normal distribution (Weyl's sequence), the same at each call."""
    shares = (0.5 + _GOLDEN * np.arange(1, count + 1)) % 1.0
    return np.array([NormalDist().inv_cdf(min(max(share, 1e-6), 1 - 1e-6)) for share in shares.tolist()])
