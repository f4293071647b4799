"""The belief about the stream: what came and what it cost, turn by turn, and what may come next.

The futures of the stream are what followed the most similar moments of the past, scaled to the present (analogue
forecasting; Lorenz, "Atmospheric Predictability as Revealed by Naturally Occurring Analogues", J. Atmos. Sci. 26,
1969). So bursts, waves, dispersion and runs of costly items are in them as they were, without a model of any. Until
there is a past, futures are drawn from a Poisson process whose rate is as uncertain as its count.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from control.rule.news import ERRORS, News
from control.rule.settings import RuleSettings

Array = npt.NDArray[np.float64]

_KEPT = 16_384
"""Turns that are remembered: about an hour."""
_FIRST = 20
"""Number of turns at the start that no future begins with, because their rates are those of a few items."""
_POOL = 4
"""Similar moments that are considered, as a multiple of the futures. Of these, evenly spaced ones are taken, because
neighbours in time are the same story."""
_LOOKED = 1500
"""Moments of the past that are compared with the present."""
_MOST_SCALED = 1.5
"""Logarithm of the largest factor by which a past rate is scaled to the present one."""
_GOLDEN = (math.sqrt(5) - 1) / 2
_TOLD_BY = 2
"""Number of items after which a changed time of a stage is noticed."""
_FEW_VARY = 0.01
"""Smallest squared coefficient of variation of an item's time, while few items are known."""


@dataclass(frozen=True, slots=True)
class Futures:
    """Possible futures of the stream: a row each, a column a step."""

    step_s: float
    items: Array
    """Items that arrive, by future and step."""
    each_s: Array
    """Time that an item takes, by future, step and stage."""

    @property
    def horizon_s(self) -> float:
        """Return how far they reach."""
        return self.step_s * int(self.items.shape[1])

    def at_most(self, per_s: float) -> Futures:
        """Return the same without what comes beyond a rate."""
        if math.isinf(per_s):
            return self
        return Futures(self.step_s, np.minimum(self.items, per_s * self.step_s), self.each_s)

    def announced(self, loads: Sequence[tuple[float, float, float]]) -> Futures:
        """Return the same with loads that are to come: from and until, in seconds from now, and items/s."""
        at_s = self.step_s * (np.arange(self.items.shape[1]) + 0.5)
        items = self.items.copy()
        for from_s, until_s, rate_per_s in loads:
            then = (from_s <= at_s) & (at_s < until_s)
            scatter = self.items[:, then] / max(float(self.items.mean()), 1e-9)
            items[:, then] = rate_per_s * self.step_s * np.clip(scatter, 0.5, 2.0)
        return Futures(self.step_s, items, self.each_s)


class _Work:
    """The time of a worker for an item, by stage, and how that of all stages varies."""

    def __init__(self, at_once: Sequence[int], items: float) -> None:
        """``items``: the mean is one over so many items."""
        self._at_once, self._items = np.array(at_once, dtype=np.float64), items
        self.each_s = np.zeros(len(at_once))
        self.calm_each_s: Array | None = None
        """Mean time of an item over the whole of a calm, by stage; None outside of one."""
        self.seen = np.zeros(len(at_once))
        """Items, by stage."""
        self.variance = 0.0
        """Variance of the time in all stages, relative to its mean."""
        self._since = np.zeros(len(at_once))
        """Items since the time last changed, by stage."""
        self._varies = np.zeros(len(at_once))
        """Variance of the logarithm of a stage's time between items."""
        self._latest = np.zeros((2, len(at_once)))
        """Items and their time, by stage, since it was last asked whether the time has changed."""

    def follow(self, done: Array, busy_s: Array) -> Array:
        """Note a turn's items and the time they took; return the time of each, the usual one where none finished."""
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
        count = float(done[-1])
        if count and self.seen.min() > 5:
            off_s = float((busy_s - done * self.each_s).sum())
            share = min(1.0, count / min(float(self.seen.min()), 300.0))
            self.variance += (off_s**2 / count / max(float(self.each_s.sum()), 1e-9) ** 2 - self.variance) * share
        return row

    def _look(self, done: Array, busy_s: Array) -> None:
        """Begin the mean anew where the latest items took a time that neither chance nor earlier changes explain."""
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
    """Return the logarithm of the ratio: times have a long tail, and their logarithms hardly any."""
    told: Array = np.log(np.maximum(one, 1e-9) / np.maximum(other, 1e-9))
    return told


class Stream:
    """The memory of the arrivals and of the stages' times."""

    def __init__(self, at_once: Sequence[int], settings: RuleSettings) -> None:
        """``at_once``: calls that one worker has at a time, by stage: it gives an item so much less of its time."""
        self._settings, stages = settings, len(at_once)
        self._turn_s = 0.25
        self._news = News()
        self._turns = 0
        # Filled, not np.zeros: its pages are taken when they are first written to, so a runner would grow for an hour.
        self._came = np.full(_KEPT + 1, 0.0)
        """Items that came up to each turn."""
        self._worked = np.full((2, _KEPT + 1), 0.0)
        """Items finished up to each turn, and the work that they took."""
        self._each_s = np.full((_KEPT, stages), 0.0)
        self._features = np.full((_KEPT, 3), 0.0)
        """Logarithms of the rate, of the rate over the slow one, and of the work of an item."""
        self._elapsed_s, self._all = 0.0, 0.0
        self.rate_per_s = self.slow_per_s = 0.0
        self._work = _Work(at_once, settings.service_items)
        self._noise = _normal(2 * settings.futures * settings.steps).reshape(2, settings.futures, settings.steps)

    @property
    def each_s(self) -> Array:
        """Return the mean time of a worker for an item, by stage, in seconds: of the latest items, or of all that came
        in a calm of some length."""
        work = self._work
        return work.each_s if work.calm_each_s is None else work.calm_each_s

    @property
    def work_s(self) -> float:
        """Return the time that an item takes in all stages, in seconds."""
        return float(self.each_s.sum())

    @property
    def cv(self) -> float:
        """Return the coefficient of variation of that time, between items; few of them may be alike by chance."""
        least = _FEW_VARY / max(1.0, self.known / self._settings.service_items)
        return math.sqrt(min(max(self._work.variance, least), 16.0))

    @property
    def calm_s(self) -> float:
        """Return for how long rate and work of an item have not changed; 0 of a stream that moves all the time."""
        if self._news.moving:
            return 0.0
        return (self._turns - self._news.since) * self._turn_s

    @property
    def item(self) -> tuple[Array, float]:
        """Return the time for an item by stage, and how it varies."""
        return self.each_s, self.cv

    @property
    def known(self) -> int:
        """Return how many items the least known stage has finished."""
        return int(self._work.seen.min())

    def add(self, elapsed_s: float, arrived: float, done: Array, busy_s: Array, set_per_s: float | None = None) -> None:
        """Note a turn: items that arrived, and by stage the items finished with the time that they took. ``set_per_s``:
        the rate of a source that keeps to one."""
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
        work = math.log(max(float(self._work.each_s.sum()), 1e-9))
        self._features[turn] = (level, level - math.log(self.slow_per_s + floor), work)
        self._turns += 1
        self._news.look(self._turns, self._came, self._worked)
        self._work.calm_each_s = self._since_news() if self.calm_s > settings.calm_after_s else None

    def _since_news(self) -> Array | None:
        """Return the mean time of the items since the last change, by stage; None if there are none."""
        done = np.diff(self._worked[0, self._news.since : self._turns + 1])
        return done @ self._each_s[self._news.since : self._turns] / done.sum() if done.any() else None

    def suppose(self, rate_per_s: float) -> None:
        """Scale the past to another rate."""
        if self.rate_per_s <= 0 or rate_per_s <= 0:
            return
        factor = rate_per_s / self.rate_per_s
        self._came *= factor
        self._features[:, 0] += math.log(factor)
        self.rate_per_s, self.slow_per_s = rate_per_s, factor * self.slow_per_s

    def stationary(self, step_s: float, steps: int) -> Futures:
        """Return futures in which it goes on as since the last change: stretches of that time in any order (bootstrap
        of blocks; Künsch, Ann. Stat. 17, 1989), each as long as a usual future; the work of items is of any turns. Of
        longer futures there are fewer."""
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
        return Futures(stride * self._turn_s, items, each_s)

    def futures(self, horizon_s: float) -> Futures:
        """Return what may come within the horizon, which is rounded up to whole turns."""
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
        return Futures(step_s, items, each_s)

    def _similar(self, turns: int) -> npt.NDArray[np.int64]:
        """Return moments of the past that were like the present, whose next ``turns`` are known: the nearest; fewer
        than futures where there are no others, and none after a change to what has not been before."""
        last = self._turns - 1 - turns
        if last <= 2 * _FIRST:
            return np.zeros(0, np.int64)
        rows = np.arange(last, _FIRST, -max(1, last // _LOOKED))
        count = min(self._settings.futures, len(rows) // 8)
        if not count:
            return np.zeros(0, np.int64)
        off = self._features[rows] - self._features[self._turns - 1]
        far = off[:, 0] ** 2 + off[:, 1] ** 2 + 4.0 * off[:, 2] ** 2  # what an item costs changes less often than rates
        pool = min(len(rows), _POOL * count)
        nearest = np.argpartition(far, pool - 1)[:pool]
        near = np.sort(rows[nearest[far[nearest] <= self._settings.similar**2]])
        count = min(count, len(near))
        chosen: npt.NDArray[np.int64] = near[np.arange(count) * len(near) // max(1, count)]
        return chosen

    def _drawn(self, step_s: float) -> tuple[Array, Array]:
        """Return futures of a Poisson process: the rate has the error of what was counted in the last seconds."""
        futures = self._settings.futures
        counted = max(1.0, min(self._elapsed_s, 5.0) * self.rate_per_s)
        scatter = math.sqrt(self._news.dispersion)
        spread = (2 * (np.arange(futures) + 0.5) / futures - 1) * 1.7 * scatter / math.sqrt(counted)  # 1.7: even
        mean = np.maximum(self.rate_per_s * (1 + spread), 0.1 * self.rate_per_s)[:, None] * step_s
        items = np.maximum(0.0, mean + scatter * np.sqrt(mean) * self._noise[0])
        costs = np.clip(1 + self.cv / np.sqrt(np.maximum(items, 1.0)) * self._noise[1], 0.1, 5.0)
        return items, costs[:, :, None] * self.each_s

    def _forget(self) -> None:
        """Forget the oldest quarter."""
        gone = _KEPT // 4
        for kept in (self._came, self._each_s, self._features):
            kept[:-gone] = kept[gone:].copy()
        self._worked[:, :-gone] = self._worked[:, gone:].copy()
        self._turns -= gone
        self._news.forget(gone)


def _normal(count: int) -> Array:
    """Return evenly scattered values of the normal distribution (Weyl's sequence), the same each time."""
    shares = (0.5 + _GOLDEN * np.arange(1, count + 1)) % 1.0
    return np.array([NormalDist().inv_cdf(min(max(share, 1e-6), 1 - 1e-6)) for share in shares.tolist()])
