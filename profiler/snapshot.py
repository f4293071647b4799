"""The monitor's observations: frozen values that are the input of the manager's decisions."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import fmean
from typing import NamedTuple, Self

import numpy as np


class LatencyFrom(StrEnum):
    """The instant from which the latency of an item counts."""

    DUE = "due"
    """Its time in the schedule of the source, or its arrival: the latency is a user's wait."""
    READ = "read"
    """The time at which the source read it, as the papers measure."""


class StageTiming(NamedTuple):
    """The time of one call of a stage, for all items of a task together, measured in the worker."""

    stage: str
    wall_s: float
    cpu_s: float


def timings_of(stages: Sequence[str], times_s: Sequence[float]) -> tuple[StageTiming, ...]:
    """Return the timings of these stages from ``times_s``, which alternates wall and CPU seconds."""
    return tuple(map(StageTiming, stages, times_s[::2], times_s[1::2]))


@dataclass(frozen=True, slots=True)
class StageProfile:
    """Service time of a stage over the profile window; ``cv`` is the coefficient of variation."""

    name: str
    service_time_s: float
    cpu_time_s: float
    cv: float
    p50_s: float
    p95_s: float
    samples: int
    busy: float = 0.0
    """Mean number of concurrent calls (Little's law); 0 if not measured."""
    at_once: int = 1
    """Concurrent calls per worker; above 1 only for a stage that waits."""
    bundle_items: float = 1.0
    """Mean number of items of its tasks."""
    done: int = 0
    """Number of items finished since the start."""
    worked_s: float = 0.0
    """Time spent on these items, all workers together."""
    inside: int = 0
    """Number of items in flight that need this stage next."""
    gpus: float = 0.0
    """GPUs that a worker for this stage alone reserves (may be a fraction); 0 if the use of GPUs is unknown."""
    gpu_s: float = 0.0
    """Time of a GPU for an item."""
    gpu_wait_s: float = 0.0
    """Time for which an item waits for a GPU that other workers use."""


@dataclass(frozen=True, slots=True)
class RateWindow:
    """A mean rate over ``length_s``; ``counted``: True for counted arrivals, False for a rate that was set."""

    rate_per_s: float
    length_s: float
    counted: bool = False


PERCENTS = (*(2.5 * step for step in range(40)), 99.0, 99.5, 99.9, 100.0)
"""Percentiles at which a distribution of latencies is stored."""


@dataclass(frozen=True, slots=True)
class Announcement:
    """A planned load from ``from_s`` until ``until_s``, in seconds of the loop's clock."""

    from_s: float
    until_s: float
    rate_per_s: float


@dataclass(frozen=True, slots=True)
class InputNow:
    """The present input."""

    windows: tuple[RateWindow, ...] = ()
    """The last two seconds of the input rate, older first, for ``input_rate_change``; empty until both are known."""
    set_per_s: float | None = None
    """Rate to which the source is set; None if arrivals are counted."""
    arrived: int = 0
    """Number of items that arrived since the start."""
    held_back: bool = False
    """True if the source is blocked because the buffer before the first group is full."""


@dataclass(frozen=True, slots=True)
class LatencyStats:
    """Latencies from arrival at the source to delivery at the sink, over a window of ``samples`` delivered items."""

    mean_s: float
    p50_s: float
    p95_s: float
    p99_s: float
    samples: int
    percentiles_s: tuple[float, ...] = ()
    """Latencies at each of ``PERCENTS``; empty if not computed."""
    from_read: "LatencyStats | None" = None
    """Latencies counted from the read, as in the papers: without the time for which the source was held back."""

    def at(self, quantile: float | None) -> float:
        """Return the latency at this quantile, in seconds; for ``None`` the mean."""
        if quantile is None:
            return self.mean_s
        percents = PERCENTS if self.percentiles_s else (50.0, 95.0, 99.0)
        known = self.percentiles_s or (self.p50_s, self.p95_s, self.p99_s)
        return float(np.interp(100 * quantile, percents, known))

    def within(self, limit_s: float) -> float | None:
        """Return the share of items within ``limit_s``, 0..1; None if only a few percentiles are known."""
        if not self.percentiles_s:
            return None
        return float(np.interp(limit_s, self.percentiles_s, PERCENTS, left=0.0)) / 100

    def statistic(self, name: str) -> float:
        """Return the value of ``mean``, ``p50``, ``p95`` or ``p99``, in seconds."""
        return float(getattr(self, f"{name}_s"))


@dataclass(frozen=True, slots=True)
class SizeLeftOpen:
    """The inputs of the default bundle size of each composition, if the user set no size."""

    target_s: float | None
    """Latency objective of an item; None: there is none."""
    times: float = 1.0
    """Present size of the active composition as a multiple of its default size."""


@dataclass(frozen=True, slots=True)
class Demand:
    """The numbers of items offered, admitted and missed since the start, and their rates over the window."""

    offered: int
    """Number of items due by now, or arrived."""
    admitted: int
    missed: int
    """Number of items dropped before they were read: a held-back source catches up only to a limit."""
    lag_s: float
    """Time for which the next item to be read has been due; 0 if none is due."""
    growth_per_s: float | None = None
    """Growth of the items that are due and not admitted, over the window."""
    offered_per_s: float | None = None
    """Rate over the window."""
    admitted_per_s: float | None = None
    """Rate over the window."""
    missed_per_s: float | None = None
    """Rate over the window."""
    delivered_per_s: float | None = None
    """Rate over the whole window, across a reset; for display, not for assessing a composition."""
    held_s: float = 0.0
    """Time for which items have waited without a break."""
    bundle_limit: int = 1
    """Largest bundle of the active composition, in items, reached if enough items wait."""
    size_left_open: SizeLeftOpen | None = None
    """None: ``bundle_limit`` applies to every composition that sets no size itself."""
    stalled_s: float = 0.0
    """Time since the last delivery during which there were always items, in seconds; 0 before the first delivery."""

    @property
    def behind(self) -> int:
        """Items that are due, will be read, and are not admitted yet."""
        return max(0, self.offered - self.admitted - self.missed)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of a running app at ``now_s``. ``None`` means not measured, never zero.

    ``throughput_per_s``, ``latency`` and ``inside`` cover only items delivered since ``window_start_s``: the later of
    the last window reset (a switch, a new SLO) and ``now_s`` minus the window length.
    """

    now_s: float
    composition: str
    switching: bool
    """True if a switch is in progress, so that measurements belong to two compositions."""
    stable_since_s: float
    """Time at which the last switch ended, or the app started."""
    window_start_s: float
    input_rate_per_s: float | None
    """Offered rate: the set rate or the rate of arrivals, not the rate that a full buffer admits."""
    throughput_per_s: float | None
    delivered: int
    """Items delivered in the window."""
    latency: LatencyStats | None
    """Time from an item's due time (or arrival, without a schedule) to its delivery: a user's wait."""
    inside: LatencyStats | None
    """Like ``latency``, but counted from the first dispatch: without the wait in the admission buffer."""
    queued: int
    """Items waiting for admission to the composition."""
    queued_change_per_s: float | None
    """Growth of ``queued`` over the window; negative while a backlog shrinks."""
    in_flight: int
    stages: tuple[StageProfile, ...]
    """In the app's order; stages without samples are missing."""
    cores: float
    """Cores that the workers of this app may use."""
    workers_alive: int
    hop_s: float
    """Measured time of one group-to-group hop, from a result leaving a worker to the next worker's start."""
    input: InputNow = InputNow()
    cores_left: float | None = None
    """Estimated number of ``cores`` that other programs leave. ``None``: no sign of other programs."""
    demand: Demand | None = None
    """None if the demand is not counted, as in a simulation of workers alone."""

    @property
    def read_latency(self) -> LatencyStats | None:
        """Latency counted from the read of an item, as the papers measure."""
        return self.latency and self.latency.from_read

    @property
    def input_rate_windows(self) -> tuple[RateWindow, ...]:
        return self.input.windows

    @property
    def counted(self) -> bool:
        """True if the rate is a count of arrivals, which scatters, and not a set rate."""
        windows = self.input.windows
        return bool(windows) and windows[-1].counted

    @property
    def bundle_items(self) -> float:
        """Mean bundle size in items, over the tasks of the profiles; 1 without a profile."""
        return fmean(stage.bundle_items for stage in self.stages) if self.stages else 1.0

    @property
    def bundle_limit(self) -> int:
        """Largest bundle in items, reached if enough items wait; 1 if the demand is not counted."""
        return 1 if self.demand is None else self.demand.bundle_limit

    @property
    def size_left_open(self) -> SizeLeftOpen | None:
        return None if self.demand is None else self.demand.size_left_open

    @property
    def backlog(self) -> int:
        """Number of waiting items: admitted ones, and those that are due and not admitted yet."""
        return self.queued + (self.demand.behind if self.demand else 0)

    @property
    def backlog_change_per_s(self) -> float | None:
        """Growth of the backlog in items/s over the window; negative while it shrinks."""
        if self.demand is None or self.demand.growth_per_s is None or self.queued_change_per_s is None:
            return self.queued_change_per_s
        return self.queued_change_per_s + self.demand.growth_per_s

    def as_read(self) -> Self:
        """Return the snapshot as the papers measure: latency from the read on, and without unread items."""
        return replace(self, latency=self.read_latency, demand=None)

    def stage(self, name: str) -> StageProfile | None:
        return next((stage for stage in self.stages if stage.name == name), None)
