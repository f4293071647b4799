"""Predict the time of a drain that began now: the samples for the drain estimate."""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import erfc, exp, log, sqrt
from statistics import NormalDist
from typing import ClassVar, NamedTuple, Protocol

from compositions.capacity.costs import StageCost
from compositions.model import Composition, Group
from compositions.settings import Checked, one_of

# Learn how the time of a task depends on the size of its item, which is known before the work begins.
#
# Many stages take different times for different items: ranking takes longer for an item with more candidates, and its
# payload is larger for the same reason. If time follows size by a power law, ``time ~ size ** exponent``, each item in
# flight gets an expected time of its own instead of the average.


@dataclass(frozen=True, slots=True)
class SizeLaw:
    """The dependence of time on size: an item is expected to take ``factor(size)`` times the mean time."""

    exponent: float
    log_scale: float
    """Normalization to a mean factor of 1 for log-normal sizes: exponent · mean + (exponent · sd)² / 2."""
    unexplained: float
    """Share of the variance of the log time that the size does not explain, 0 to 1."""

    def factor(self, size_bytes: int) -> float:
        return exp(self.exponent * log(size_bytes) - self.log_scale) if size_bytes > 0 else 1.0


class SizeTrend:
    """A running least-squares line through (log size, log time) that forgets: gain 1/64, about the last 64 tasks."""

    GAIN = 1 / 64
    LEAST_SAMPLES = 12
    LEAST_EXPLAINED = 0.5
    """Smallest explained share of the variance for a law; below it the mean is as good."""
    LEAST_SPREAD = 1e-4
    """Smallest variance of the log size for a law: sizes that differ by 1 %."""

    def __init__(self) -> None:
        self._count = 0
        self._mean_x = self._mean_y = self._var_x = self._var_y = self._cov = 0.0

    def add(self, size_bytes: int, time_s: float) -> None:
        """Add one task; sizes and times that are not positive are ignored."""
        if size_bytes <= 0 or time_s <= 0:
            return
        self._count += 1
        gain = max(self.GAIN, 1 / self._count)
        dx, dy = log(size_bytes) - self._mean_x, log(time_s) - self._mean_y
        self._mean_x += gain * dx
        self._mean_y += gain * dy
        self._var_x = (1 - gain) * (self._var_x + gain * dx * dx)
        self._var_y = (1 - gain) * (self._var_y + gain * dy * dy)
        self._cov = (1 - gain) * (self._cov + gain * dx * dy)

    def law(self) -> SizeLaw | None:
        """Return the law; None if there are too few tasks, or if size does not explain the time."""
        if self._count < self.LEAST_SAMPLES or self._var_x < self.LEAST_SPREAD or self._var_y <= 0:
            return None
        explained = self._cov**2 / (self._var_x * self._var_y)
        if explained < self.LEAST_EXPLAINED:
            return None
        exponent = self._cov / self._var_x
        return SizeLaw(exponent, exponent * self._mean_x + exponent**2 * self._var_x / 2, 1 - explained)


class SizeLaws:
    """One trend for each sequence of adjacent stages that was executed as one task."""

    def __init__(self) -> None:
        self._trends: dict[tuple[str, ...], SizeTrend] = {}

    def add(self, stages: tuple[str, ...], size_bytes: int, time_s: float) -> None:
        self._trends.setdefault(stages, SizeTrend()).add(size_bytes, time_s)

    def law(self, stages: tuple[str, ...]) -> SizeLaw | None:
        trend = self._trends.get(stages)
        return trend.law() if trend else None


class Pending(NamedTuple):
    """A bundle in flight. ``age_s``: time for which its task has run; None: it waits. ``size_bytes``: present payload
    of one item; 0: unknown."""

    age_s: float | None = None
    size_bytes: int = 0
    items: int = 1


def paper_sample(in_flight: int, mean_service_s: float, workers: int) -> float:
    """Return ``in_flight · s̄ / P`` in seconds, as published: it assumes that all workers share the remaining work."""
    return in_flight * mean_service_s / workers


def schedule_sample(
    composition: Composition,
    pending: Mapping[str, Sequence[Pending]],
    costs: Mapping[str, StageCost],
    *,
    cores: float,
    hop_s: float = 0.0,
    laws: SizeLaws | None = None,
) -> float | None:
    """Return the expected seconds until every in-flight item has left. ``None`` without items or a stage's cost.

    ``pending``: in-flight items by the stage they need next, in the order in which they will be served. List
    scheduling: the items of a group go first come, first served to its replicas. Each takes the service time of the
    stages it still needs plus ``hop_s``, and then joins the next group. If the size of an item explains its time
    (``laws``), that time is used, else the mean; items in work need only the rest. The last of several replicas
    finishes later than their average. The result is at least the remaining CPU time divided by ``cores``. If workers
    choose their stage, it is also at least the remaining worker time divided by the number of workers.

    The published sample divides by all workers, also by those whose group is already empty. On a pipeline with one slow
    stage it is too low by the share of that stage's workers. It also assumes that all items are average.
    """
    if not any(pending.values()) or any(stage not in costs for stage in composition.iter_stages()):
        return None
    ready: list[float] = []
    cpu_left_s = worker_left_s = 0.0
    for group in composition.groups:
        cpu_left_s += len(ready) * _cpu_s(group.stages, costs)
        works = _works(group, pending, costs, laws)
        residuals, waiting = _split(works, group.replicas)
        cpu_left_s += sum(work.cpu_s * (1.0 if work.age_s is None else work.left_s / work.whole_s) for work in works)
        arriving = [(ready_s, _service_s(group.stages, costs) + hop_s) for ready_s in ready]
        worker_left_s += sum(work_s for _, work_s in arriving) + sum(work.left_s + hop_s for work in works)
        jobs = [(0.0, work.whole_s + hop_s) for work in waiting] + arriving
        ready = _finish_times(group.replicas, [left_s + hop_s for left_s in residuals], jobs)
        ready = _spread(ready, group.replicas, _scatter_s(group.stages, costs, laws))
    return max(*ready, cpu_left_s / cores, worker_left_s / composition.workers if composition.dyn is not None else 0.0)


def left_s(mean_s: float, cv: float, age_s: float) -> float:
    """Return the expected remaining time of a task that has run for ``age_s``; such tasks take ``mean_s`` with ``cv``.

    It is the mean residual life of a lognormal time: E[X - a | X > a]. With cv = 0 it is the rest of the mean; with a
    large cv, a task that has run for long needs even more time.
    """
    if age_s <= 0:
        return mean_s
    if mean_s <= 0 or cv < 0.01:
        return max(mean_s - age_s, 0.0)
    sigma = sqrt(log(1 + cv * cv))
    late = (log(age_s) - log(mean_s)) / sigma + sigma / 2
    still_running = _above(late)
    if still_running < 1e-9:  # far out in the tail the ratio below is 0 / 0: return its limit
        return age_s * sigma / late
    return mean_s * _above(late - sigma) / still_running - age_s


def _above(z: float) -> float:
    """Return the share of a standard normal distribution above ``z``."""
    return erfc(z / sqrt(2)) / 2


class _Work(NamedTuple):
    """The times that a bundle needs in its group, in seconds: total, remaining, and CPU."""

    whole_s: float
    left_s: float
    cpu_s: float
    age_s: float | None


def _works(
    group: Group, pending: Mapping[str, Sequence[Pending]], costs: Mapping[str, StageCost], laws: SizeLaws | None
) -> list[_Work]:
    """Return the jobs of all items of a group; items that need the fewest stages come first."""
    tails = [group.stages[i:] for i in reversed(range(len(group.stages)))]
    return [_work(tail, item, costs, laws) for tail in tails for item in pending.get(tail[0], ())]


def _work(stages: Sequence[str], item: Pending, costs: Mapping[str, StageCost], laws: SizeLaws | None) -> _Work:
    mean_s, cpu_s = _service_s(stages, costs) * item.items, _cpu_s(stages, costs) * item.items
    law = laws.law(tuple(stages)) if laws is not None and item.size_bytes else None
    factor = law.factor(item.size_bytes) if law else 1.0
    whole_s = mean_s * factor
    if item.age_s is None:
        return _Work(whole_s, whole_s, cpu_s * factor, None)
    cv = _scatter_s(stages, costs, laws) * sqrt(item.items) / mean_s if mean_s > 0 else 0.0
    return _Work(whole_s, left_s(whole_s, cv, item.age_s), cpu_s * factor, item.age_s)


def _scatter_s(stages: Sequence[str], costs: Mapping[str, StageCost], laws: SizeLaws | None) -> float:
    """Return the standard deviation of the time of a task, without the part that its size explains."""
    scatter_s = sqrt(sum((costs[stage].cv * costs[stage].service_s) ** 2 for stage in stages))
    law = laws.law(tuple(stages)) if laws is not None else None
    return scatter_s * sqrt(law.unexplained) if law else scatter_s


def _spread(finished: Sequence[float], replicas: int, scatter_s: float) -> list[float]:
    """Return finish times; the last ones, which run in parallel, are spread by normal order statistics (Blom 1958)."""
    together = min(replicas, len(finished))
    spread = list(finished)
    for rank in range(1, together + 1):
        shift_s = scatter_s * NormalDist().inv_cdf((rank - 0.375) / (together + 0.25))
        spread[rank - together - 1] = max(0.0, spread[rank - together - 1] + shift_s)
    return sorted(spread)


def _split(works: Sequence[_Work], replicas: int) -> tuple[list[float], list[_Work]]:
    """Return the remaining times of the items in work, and the waiting items."""
    in_work = [work.left_s for work in works if work.age_s is not None]
    return in_work[:replicas], [work for work in works if work.age_s is None]


def _service_s(stages: Sequence[str], costs: Mapping[str, StageCost]) -> float:
    return sum(costs[stage].service_s for stage in stages)


def _cpu_s(stages: Sequence[str], costs: Mapping[str, StageCost]) -> float:
    return sum(costs[stage].cpu_s for stage in stages)


def _finish_times(replicas: int, residuals: Sequence[float], jobs: Sequence[tuple[float, float]]) -> list[float]:
    """Return the finish times in a group, in order: items in work, then ``jobs`` (ready at, work) as they came."""
    free = [0.0] * (replicas - len(residuals)) + list(residuals)
    heapq.heapify(free)
    finished = list(residuals)
    for ready_s, work_s in jobs:
        end_s = max(ready_s, free[0]) + work_s
        heapq.heapreplace(free, end_s)
        finished.append(end_s)
    return sorted(finished)


@dataclass(frozen=True, slots=True)
class InFlight:
    """The items that a drain would empty now: ``pending`` by the stage they need next, ``count`` of them."""

    composition: Composition
    count: int
    pending: Mapping[str, Sequence[Pending]]


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions of a drain: costs of stages, cores, time of a hop, size laws, and the learned ratio of actual to
    expected drain times."""

    costs: Mapping[str, StageCost]
    cores: float
    hop_s: float
    laws: SizeLaws
    calibration: float


class DrainSample(Protocol):
    """Predicts the time of a drain that began now, in seconds; None if too little is known."""

    waits: ClassVar[bool]
    """True if, with style ``drain``, the new composition starts when the estimate is over, even if items remain."""

    def sample(self, left: InFlight, now: Conditions) -> float | None:
        """Return a regular sample, for the mean and the deviation."""

    def at_switch(self, left: InFlight, now: Conditions) -> float | None:
        """Return a sample for a switch that begins now; None if the mean is to be used."""


class PaperSample:
    """The published sample (Vogel et al., section 3.3): items in flight times mean service time over workers.

    At a switch the smoothed mean is used, and the drain lasts as long as the estimate (same section). Without an
    estimate, it lasts until the composition is empty. A task there is an item, with the service time of all stages: 24
    ms in section 4.2.1. Two such items in a sequential group are 48 ms, in three groups of one worker each 16 ms.
    """

    waits: ClassVar[bool] = True

    def sample(self, left: InFlight, now: Conditions) -> float | None:
        if any(stage not in now.costs for stage in left.composition.iter_stages()):
            return None
        item_s = sum(now.costs[stage].service_s for stage in left.composition.iter_stages())
        return paper_sample(left.count, item_s, left.composition.workers)

    def at_switch(self, left: InFlight, now: Conditions) -> float | None:
        return None


class ScheduleSample:
    """Predicts by the position of each item, corrected by the errors of earlier drains; sampled anew at a switch."""

    waits: ClassVar[bool] = False

    def sample(self, left: InFlight, now: Conditions) -> float | None:
        sample_s = schedule_sample(
            left.composition, left.pending, now.costs, cores=now.cores, hop_s=now.hop_s, laws=now.laws
        )
        return None if sample_s is None else sample_s * now.calibration

    def at_switch(self, left: InFlight, now: Conditions) -> float | None:
        return self.sample(left, now)


KINDS: Mapping[str, type[DrainSample]] = {"schedule": ScheduleSample, "paper": PaperSample}
"""Kinds of samples by the value of the setting ``drain_sample``."""


@dataclass(frozen=True, slots=True)
class DrainSettings(Checked):
    """The kind of estimate for a drain. Raises: SettingsError for an unknown kind."""

    drain_sample: str = one_of("schedule", "paper")
    """``schedule`` also fits groups that differ, and a drain lasts until the composition is empty. ``paper`` is as
    published: a drain lasts as long as its estimate. Default: ``paper`` with strategies ``vogel`` and ``pdp21``."""

    @property
    def made(self) -> DrainSample:
        return KINDS[self.drain_sample]()
