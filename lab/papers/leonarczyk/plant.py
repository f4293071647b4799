"""The controlled pipeline in virtual time: a source that opens bundles, and a line of stages that process them.

The source first prepares a bundle of ``n`` tuples. Then the stages work on it: a tuple alone takes ``a(w)`` for its
load ``w``, all together ``b(w) · n``. Without parallelism, the work is the sum of both; the emptier the device, the
nearer it is to the greater of both. The slowest stage's part is the minimum interval between bundles, which leave in
order. At most ``in_flight`` are between source and sink. Bundles keep the size with which they were opened.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from apps.military_server.app import PATTERNS, PHASES, Phase, loads_of
from apps.military_server.app import Loads as Floats
from control.bundles.port import BatchController, BundleOpening, DeliveredBundle

__all__ = ["PATTERNS", "PHASES", "Floats", "Phase"]
AT_A_TIME = 64
"""Number of drift periods drawn in one go."""


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
    """Tuples are available whenever a bundle opens, and their latency counts from then on, as in the thesis."""

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
    """Milliseconds of a bundle by the load of its tuples, straight lines between ``loads``.

    The defaults are assumed, not measured; ``MACHINE`` is fitted to the thesis's tables.
    """

    a_ms: tuple[float, ...] = (0.14, 2.2)
    """Milliseconds of a bundle independent of its size,"""
    b_ms: tuple[float, ...] = (0.0095, 0.2)
    """and milliseconds of each of its tuples once the device is full."""
    loads: tuple[float, ...] = (0.0, 1.0)
    """From the easiest to the hardest tuples."""
    overlap: float = 1.0
    """1: the work is a + b · n; the higher, the nearer to the greater of both: (a^o + (b · n)^o)^(1/o)."""
    prepare_ms: tuple[float, float] = (0.0, 0.0)
    """Time of the source for a bundle and for each of its tuples, whatever their load."""
    cv: float = 0.03
    """Coefficient of variation of a bundle's work, lognormal."""
    alone_cv: float | None = None
    """Coefficient of variation of the ``a`` part, if it differs; None: both parts vary together."""
    drift_cv: float = 0.1
    """Variation of a factor that slows bundles down for a while, such as another user of the machine."""
    drift_bundles: int = 200
    """Length of such a period, in bundles."""
    stretch_cv: float = 0.0
    """Variation of the cost from one stretch of the stream to the next,"""
    stretch_tuples: int = 20_000
    """each with this many tuples."""
    alone_drift: float = 1.0
    """Exponent of both variations for the ``a`` part; 0: none."""
    run_cv: tuple[float, float] = (0.0, 0.0)
    """Variation of both parts from run to run."""
    outliers: float = 0.002
    """Share of bundles that are delayed: they take ``held_up`` times as long."""
    held_up: float = 1.7

    def stretches(self, seed: int, tuples: int) -> list[float]:
        """Return a factor for each stretch."""
        chance = np.random.default_rng((seed, 2))
        return list(map(float, _lognormal(chance, self.stretch_cv, tuples // self.stretch_tuples + 1)))

    def noise(self, seed: int) -> Iterator[Noise]:
        """Yield the noise of each bundle, without end."""
        chance, count = np.random.default_rng(seed), self.drift_bundles * AT_A_TIME
        runs = [_lognormal(np.random.default_rng((seed, part)), cv, 1) for part, cv in enumerate(self.run_cv)]
        while True:
            own = _lognormal(chance, self.cv, count)
            drift = np.repeat(_lognormal(chance, self.drift_cv, AT_A_TIME), self.drift_bundles)
            held_up = np.where(chance.random(count) < self.outliers, self.held_up, 1.0)
            own_alone = own if self.alone_cv is None else _lognormal(chance, self.alone_cv, count)
            alone, full = runs[0] * own_alone * held_up * drift**self.alone_drift, runs[1] * own * held_up * drift
            yield from map(Noise, drift.tolist(), alone.tolist(), full.tolist())


class Noise(NamedTuple):
    """Factors of a bundle's times, means about 1."""

    drift: float
    alone: float
    full: float


def _lognormal(chance: np.random.Generator, cv: float, count: int) -> Floats:
    """Return factors with a mean of 1."""
    sigma = np.sqrt(np.log1p(cv**2))
    return np.exp(chance.normal(-(sigma**2) / 2, sigma, count))


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The stages that bundles pass, and the source of their tuples."""

    law: CostLaw = CostLaw()
    in_flight: int = 5
    """Maximum number of bundles between source and sink."""
    source: Source = ALWAYS_THERE
    slowest: float | None = None
    """Share of the work of the slowest stage; None: 1 / ``in_flight``, as if all stages took equally long."""

    @property
    def apart(self) -> float:
        return 1 / self.in_flight if self.slowest is None else self.slowest


MACHINE = Pipeline(
    CostLaw(
        a_ms=(0.02382, 0.2935, 0.5616, 0.8291, 1.096, 1.363, 1.629, 1.896, 2.162, 2.428, 2.694),
        b_ms=(0.00417, 0.004613, 0.006293, 0.009476, 0.01433, 0.021, 0.02958, 0.04016, 0.05284, 0.06767, 0.08474),
        loads=tuple(tenth / 10 for tenth in range(11)),
        overlap=6.22,
        prepare_ms=(0.134, 0.00605),
        cv=0.00864,
        alone_cv=0.0205,
        drift_cv=0.243,
        drift_bundles=238,
        stretch_cv=0.153,
        stretch_tuples=14740,
        alone_drift=0.713,
        run_cv=(0.0394, 0.0214),
        outliers=0.033,
        held_up=1.48,
    ),
    slowest=0.125,
)
"""The thesis's machine as its tables show it: one set of values for all (docs/decisions/0023-controllers.md)."""


@dataclass(frozen=True, slots=True)
class Trace:
    """All bundles of a run in order, with an entry each."""

    firsts: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    latencies_s: Floats
    ended_s: float
    """Time when the last bundle was delivered."""


def simulate(
    controller: BatchController, loads: Floats, pipeline: Pipeline, seed: int = 1, known: Work | None = None
) -> Trace:
    """Send all ``loads`` through ``pipeline``, in bundles of the controller's sizes. Same arguments, same trace.

    ``known``: their work, if it was summed up before.
    """
    source, noise, apart = pipeline.source, pipeline.law.noise(seed), pipeline.apart
    known, law = known or Work(loads, pipeline.law), pipeline.law
    stretches = law.stretches(seed, len(loads))
    done_s = deque([0.0] * pipeline.in_flight, maxlen=pipeline.in_flight)
    """Times when the bundles in flight leave, oldest first."""
    untold: deque[tuple[float, DeliveredBundle]] = deque()
    rows: list[tuple[int, int, float]] = []
    first, gone_s = 0, 0.0
    while first < len(loads):
        opened_s = max(done_s[0], gone_s)
        while untold and untold[0][0] <= opened_s:
            controller.delivered(untold.popleft()[1])
        choice = controller.next(BundleOpening(first, source.rate_per_s, source.waiting(first, opened_s)))
        size = min(choice.items, len(loads) - first)
        closed_s = max(opened_s, source.arrived_s(first + size - 1, opened_s))
        drift, alone, full = next(noise)
        prepared_s, alone_s, full_s = known.parts_s(first, size)
        stretch = stretches[first // law.stretch_tuples]
        gone_s = closed_s + prepared_s * drift * stretch
        work_s = known.together_s(alone_s * alone * stretch**law.alone_drift, full_s * full * stretch)
        done = max(gone_s + work_s, done_s[-1] + work_s * apart)
        arrived_s = source.arrived_s(first, opened_s)
        done_s.append(done)
        busy_s = gone_s - closed_s + work_s
        untold.append((done, DeliveredBundle(first, size, done - arrived_s, closed_s - arrived_s, busy_s)))
        rows.append((first, size, done - arrived_s))
        first += size
    firsts, sizes, latencies_s = zip(*rows, strict=True)
    return Trace(np.array(firsts), np.array(sizes), np.array(latencies_s), done_s[-1])


class Work:
    """Mean times of the bundles of a stream, in seconds."""

    def __init__(self, loads: Floats, law: CostLaw) -> None:
        self._a_s, self._b_s = (_summed(np.interp(loads, law.loads, each_ms) / 1e3) for each_ms in (law.a_ms, law.b_ms))
        self._overlap = law.overlap
        self._bundle_s, self._tuple_s = (each_ms / 1e3 for each_ms in law.prepare_ms)

    def parts_s(self, first: int, size: int) -> tuple[float, float, float]:
        """Return three times of ``size`` tuples from ``first`` on: the source's, and a and b · n of the law."""
        end = first + size
        alone_s, full_s = (self._a_s[end] - self._a_s[first]) / size, self._b_s[end] - self._b_s[first]
        return self._bundle_s + self._tuple_s * size, alone_s, full_s

    def together_s(self, alone_s: float, full_s: float) -> float:
        """Return the work of a bundle with these parts."""
        if self._overlap == 1:
            return alone_s + full_s
        most, least = (alone_s, full_s) if alone_s > full_s else (full_s, alone_s)
        return most * float((1 + (least / most) ** self._overlap) ** (1 / self._overlap))

    def mean_s(self, first: int, size: int) -> float:
        """Return the time from source to sink without a queue."""
        prepared_s, alone_s, full_s = self.parts_s(first, size)
        return prepared_s + self.together_s(alone_s, full_s)


def _summed(values: Floats) -> list[float]:
    """Return the sums of the first 0, 1, 2 … values."""
    summed: list[float] = np.concatenate(([0.0], np.cumsum(values))).tolist()
    return summed
