"""Compute how long items would wait in a group under each future, and which share of them would be late."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from control.rule.plans import Goal
from control.rule.stream import Array, Futures

_MEAN_POINTS = 257
_LEAST_SLACK = 0.1
"""Smallest allowed wait, as a share of a bound on the mean, if an item alone takes about the bound or longer."""
_AXIS = np.linspace(-4, 4, 81)
_BELOW = np.array([NormalDist().cdf(value) for value in _AXIS.tolist()])


@dataclass(frozen=True, slots=True)
class GroupNow:
    """The present state of a group of stages."""

    stages: tuple[int, ...]
    replicas: int
    ready: int
    """Number of running workers."""
    waiting: float
    """Number of items that wait at the group or are in work."""
    missing_s: float
    """Time until the starting workers run, in seconds."""
    anew: bool = False
    """True for a group of another grouping than the active one: it takes over workers of the present groups."""


def waits(
    now: GroupNow,
    replicas: Array,
    futures: Futures,
    each_and_hop_s: tuple[float, float],
    start_s: float,
    room: float | Array = math.inf,
) -> tuple[Array, Array]:
    """Return an arriving item's wait (by replicas, future and step) and the work left at the end, in seconds.
    ``each_and_hop_s``: mean time for an item, and the hop's part of it. ``room``: most workers that can be busy.

    Work is a fluid that all workers of the group drain (Lindley's recursion in steps). An item in work delays only the
    next item of its own worker, so half an item is subtracted for each worker beyond the first.
    """
    each_s, hop_s = each_and_hop_s
    work_s = futures.items * (futures.each_s[:, :, list(now.stages)].sum(axis=2) + hop_s)
    in_hand = np.minimum(now.waiting, replicas if now.anew else now.ready)
    left_s = np.reshape((now.waiting - 0.5 * in_hand) * each_s, (-1, 1, 1))
    at_s = np.arange(work_s.shape[1]) * futures.step_s
    present = np.where(at_s < now.missing_s, now.ready, now.replicas)
    wanted = replicas[:, None]
    early = (at_s[None] < start_s) & (not now.anew)
    workers = np.where(early, np.minimum(present[None], wanted), wanted)
    workers = np.minimum(workers, np.reshape(room, (-1, 1)))
    net_s = np.cumsum(work_s[None] - workers[:, None, :] * futures.step_s, axis=2) + left_s
    ahead_s = net_s - np.minimum(0.0, np.minimum.accumulate(net_s, axis=2))
    count = np.maximum(workers, 0.5)[:, None, :]
    in_hand_s = each_s * (np.maximum(count, 1.0) - 1) / (2 * np.maximum(count, 1.0))
    return np.maximum(0.0, ahead_s / count - in_hand_s), ahead_s[:, :, -1]


@dataclass(frozen=True, slots=True)
class ItemTime:
    """The log-normal distribution of an item's own time, without waits."""

    mean_log: float
    deviation: float

    @classmethod
    def of(cls, mean_s: float, cv: float) -> ItemTime:
        """Return the distribution with this mean and coefficient of variation."""
        variance = math.log1p(cv * cv)
        return cls(math.log(max(mean_s, 1e-9)) - variance / 2, math.sqrt(variance))

    @property
    def mean_s(self) -> float:
        """The mean, in seconds."""
        return math.exp(self.mean_log + self.deviation**2 / 2)

    @property
    def long_s(self) -> float:
        """The 90th percentile, in seconds."""
        return math.exp(self.mean_log + 1.3 * self.deviation)

    def ordered_s(self, rate_per_s: float) -> float:
        """Return the mean time to the delivery of an item that does not queue: it may wait for an earlier item."""
        at_s = np.linspace(0.0, self.mean_s * math.exp(4 * self.deviation), _MEAN_POINTS)
        return float(np.trapezoid(self.beyond(at_s, rate_per_s), at_s))

    def late(self, goal: Goal, waits_s: Array, rate_per_s: float) -> Array:
        """Return the share of an item that counts as late, by its wait in the queue."""
        if not goal.of_mean:
            return self.beyond(goal.bound_s - waits_s, rate_per_s)
        return np.maximum(0.0, self.late_of_mean(goal, waits_s, rate_per_s))

    def late_of_mean(self, goal: Goal, waits_s: Array, rate_per_s: float) -> Array:
        """Return that share for a bound on the mean: linear in the wait, and at most 1."""
        slack_s = goal.bound_s - self.ordered_s(rate_per_s)
        used = 1 + (waits_s - slack_s) / max(slack_s, _LEAST_SLACK * goal.bound_s)
        return np.minimum((1 - goal.share) * used, 1.0)

    def beyond(self, limit_s: Array, rate_per_s: Array | float = 0.0) -> Array:
        """Return the share of items that take longer or wait for one that does: results leave in order, so an item that
        exceeds the limit delays all items that arrive within the excess after it."""
        at = (np.log(np.maximum(limit_s, 1e-9)) - self.mean_log) / self.deviation
        own: Array = 1 - np.interp(at, _AXIS, _BELOW)
        longer = 1 - np.interp(at - self.deviation, _AXIS, _BELOW)  # share of the total time spent on such items
        excess_s = np.maximum(0.0, self.mean_s * longer - np.maximum(limit_s, 0.0) * own)
        share: Array = np.where(limit_s <= 0, 1.0, 1 - (1 - own) * np.exp(-rate_per_s * excess_s))
        return share
