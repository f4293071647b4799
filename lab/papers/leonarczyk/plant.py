"""The controlled pipeline in virtual time: a source that opens bundles, and a line of stages that they go through.

A bundle of ``n`` tuples of load ``w`` takes ``a(w) + b(w) · n`` from source to sink when nothing is in its way. Each of
the ``in_flight`` stages holds one bundle and takes the same part of that, so bundles leave that part apart at least, in
order. They keep the size that they were opened with.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

from apps.military_server.app import PATTERNS, PHASES, Phase, loads_of
from apps.military_server.app import Loads as Floats
from control.bundles.port import BatchController, BundleOpening, DeliveredBundle

__all__ = ["PATTERNS", "PHASES", "Floats", "Phase"]
AT_A_TIME = 64
"""Spells of drift drawn in one go."""


# --- tuples -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """Phases one after the other (section 4.2.1, table 4.1). Equal to itself only, so that it can key a cache."""

    phases: Sequence[Phase]
    loads: Floats
    """Load of each tuple, 0..1."""

    @staticmethod
    def of(phases: Sequence[Phase] = PHASES) -> Workload:
        return Workload(tuple(phases), loads_of(phases))

    @property
    def bounds(self) -> list[tuple[int, int]]:
        """First tuple of each phase and the first after it."""
        edges = accumulate((phase.tuples for phase in self.phases), initial=0)
        return list(pairwise(edges))


@dataclass(frozen=True, slots=True)
class AlwaysThere:
    """Tuples are there whenever a bundle opens, and their latency counts from then on; as in the thesis."""

    rate_per_s: None = None

    def arrived_s(self, tuple_: int, opened_s: float) -> float:
        return opened_s

    def waiting(self, first: int, at_s: float) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class Paced:
    """Tuples arrive evenly, also while bundles have no room."""

    rate_per_s: float

    def arrived_s(self, tuple_: int, opened_s: float) -> float:
        return tuple_ / self.rate_per_s

    def waiting(self, first: int, at_s: float) -> int:
        """Return the number of tuples from ``first`` on that have arrived."""
        return max(0, int(at_s * self.rate_per_s) + 1 - first)


Source = AlwaysThere | Paced
ALWAYS_THERE = AlwaysThere()


# --- bundles ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CostLaw:
    """Milliseconds of a bundle, source to sink: ``a + b · n``, for tuples of some ``loads``, straight lines between."""

    a_ms: tuple[float, ...] = (0.14, 2.2)
    b_ms: tuple[float, ...] = (0.0095, 0.2)
    loads: tuple[float, ...] = (0.0, 1.0)
    """From the easiest to the hardest tuples."""
    cv: float = 0.03
    """Coefficient of variation of a bundle's time, lognormal."""
    drift_cv: float = 0.1
    """Variation of what slows bundles down for a while, such as another user of the machine."""
    drift_bundles: int = 200
    """Length of such a while."""
    outliers: float = 0.002
    """Share of bundles that are held up: they take ``held_up`` times as long."""
    held_up: float = 1.7
    origin: str = "assumed, not measured"

    def noise(self, seed: int) -> Iterator[float]:
        """Yield a factor for each bundle, without end; mean about 1."""
        for drift, own in self._drawn(seed):
            yield from (drift * own).tolist()

    def drift(self, seed: int) -> Iterator[float]:
        """Yield the part of ``noise`` that stays for a while."""
        for drift, _ in self._drawn(seed):
            yield from drift.tolist()

    def _drawn(self, seed: int) -> Iterator[tuple[Floats, Floats]]:
        """Yield drift and each bundle's own noise."""
        chance = np.random.default_rng(seed)
        while True:
            own = _lognormal(chance, self.cv, self.drift_bundles * AT_A_TIME)
            drift = np.repeat(_lognormal(chance, self.drift_cv, AT_A_TIME), self.drift_bundles)
            own[chance.random(len(own)) < self.outliers] *= self.held_up
            yield drift, own


def _lognormal(chance: np.random.Generator, cv: float, count: int) -> Floats:
    """Return factors with a mean of 1."""
    sigma = np.sqrt(np.log1p(cv**2))
    return np.exp(chance.normal(-(sigma**2) / 2, sigma, count))


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The way of bundles, and the source of their tuples."""

    law: CostLaw = CostLaw()
    in_flight: int = 5
    """Bundles between source and sink: one in each of the thesis's five stages, none of them replicated."""
    source: Source = ALWAYS_THERE


@dataclass(frozen=True, slots=True)
class Trace:
    """All bundles of a run, an entry each, in order."""

    firsts: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    latencies_s: Floats
    ended_s: float
    """When the last was delivered."""


def simulate(
    controller: BatchController, loads: Floats, pipeline: Pipeline, seed: int = 1, known: Work | None = None
) -> Trace:
    """Send all ``loads`` through ``pipeline``, in bundles of the controller's sizes. Same arguments, same trace.

    ``known``: their work, where it was summed up before.
    """
    source, noise = pipeline.source, pipeline.law.noise(seed)
    mean_s = (known or Work(loads, pipeline.law)).mean_s
    done_s = deque([0.0] * pipeline.in_flight, maxlen=pipeline.in_flight)
    """When each of the bundles in flight leaves, oldest first."""
    untold: deque[tuple[float, DeliveredBundle]] = deque()
    rows: list[tuple[int, int, float]] = []
    first, closed_s = 0, 0.0
    while first < len(loads):
        opened_s = max(done_s[0], closed_s)
        while untold and untold[0][0] <= opened_s:
            controller.delivered(untold.popleft()[1])
        choice = controller.next(BundleOpening(first, source.rate_per_s, source.waiting(first, opened_s)))
        size = min(choice.items, len(loads) - first)
        closed_s = max(opened_s, source.arrived_s(first + size - 1, opened_s))
        work = mean_s(first, size) * next(noise)
        done = max(closed_s + work, done_s[-1] + work / pipeline.in_flight)
        arrived_s = source.arrived_s(first, opened_s)
        done_s.append(done)
        untold.append((done, DeliveredBundle(first, size, done - arrived_s, closed_s - arrived_s, work)))
        rows.append((first, size, done - arrived_s))
        first += size
    firsts, sizes, latencies_s = zip(*rows, strict=True)
    return Trace(np.array(firsts), np.array(sizes), np.array(latencies_s), done_s[-1])


class Work:
    """Mean times of the bundles of a stream, in seconds."""

    def __init__(self, loads: Floats, law: CostLaw) -> None:
        self._a_s, self._b_s = (_summed(np.interp(loads, law.loads, each_ms) / 1e3) for each_ms in (law.a_ms, law.b_ms))

    def mean_s(self, first: int, size: int) -> float:
        """Return the time of ``size`` tuples from ``first`` on."""
        end = first + size
        return (self._a_s[end] - self._a_s[first]) / size + self._b_s[end] - self._b_s[first]


def _summed(values: Floats) -> list[float]:
    """Return the sums of the first 0, 1, 2 … values."""
    summed: list[float] = np.concatenate(([0.0], np.cumsum(values))).tolist()
    return summed
