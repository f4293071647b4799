"""The monitor's observations: frozen values that the manager decides on."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import fmean
from typing import NamedTuple, Self

import numpy as np


class LatencyFrom(StrEnum):
    """The instant from which the latency of an item counts."""

    DUE = "due"
    """Its place in the schedule of the source, or when it came: what a user waits."""
    READ = "read"
    """When the source got to it, as the papers measure."""


class StageTiming(NamedTuple):
    """One execution of one stage, on all items of a task together, measured in the worker while busy."""

    stage: str
    wall_s: float
    cpu_s: float


def timings_of(stages: Sequence[str], times_s: Sequence[float]) -> tuple[StageTiming, ...]:
    """Return the timings of these stages, from wall and CPU seconds of each, in turn."""
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
    """Mean number of calls of it at a time (Little's law); 0 where not measured."""
    at_once: int = 1
    """Calls that one worker has at a time, of a stage that waits; of others they are as many as workers run it."""
    bundle_items: float = 1.0
    """Mean number of items of its tasks."""
    done: int = 0
    """Items that it has finished since the start."""
    worked_s: float = 0.0
    """Time that this took, all workers together."""
    inside: int = 0
    """Items in flight that need it next."""
    gpus: float = 0.0
    """The share of a GPU that a worker for this stage alone reserves; 0 where the use of GPUs is not known."""
    gpu_s: float = 0.0
    """What a GPU works for an item."""
    gpu_wait_s: float = 0.0
    """What an item waits while other workers have the GPU."""


@dataclass(frozen=True, slots=True)
class RateWindow:
    """Mean rate over ``length_s``; ``counted``: of arrivals, with the scatter of a count, not a rate that was set."""

    rate_per_s: float
    length_s: float
    counted: bool = False


PERCENTS = (*(2.5 * step for step in range(40)), 99.0, 99.5, 99.9, 100.0)
"""At which a distribution of latencies is kept."""


@dataclass(frozen=True, slots=True)
class Announcement:
    """From ``from_s`` until ``until_s``, seconds of the loop's clock, so many items a second are to come."""

    from_s: float
    until_s: float
    rate_per_s: float


@dataclass(frozen=True, slots=True)
class InputNow:
    """The input as of now."""

    windows: tuple[RateWindow, ...] = ()
    """The last two seconds of the input rate, older first, for ``input_rate_change``; empty until both are known."""
    set_per_s: float | None = None
    """What the source is set to; None where arrivals are counted."""
    arrived: int = 0
    """Items that came since the start."""
    held_back: bool = False
    """No further item is welcome: the buffer before the first group is full."""


@dataclass(frozen=True, slots=True)
class LatencyStats:
    """Arrival at the source to delivery at the sink, over a window of ``samples`` delivered items."""

    mean_s: float
    p50_s: float
    p95_s: float
    p99_s: float
    samples: int
    percentiles_s: tuple[float, ...] = ()
    """At each of ``PERCENTS``; empty where nobody asked."""
    from_read: "LatencyStats | None" = None
    """The same from when items were read, as in the papers: without the time for which the source is held back."""

    def at(self, quantile: float | None) -> float:
        """The latency within which this share of the items is, in seconds; of ``None`` the mean."""
        if quantile is None:
            return self.mean_s
        percents = PERCENTS if self.percentiles_s else (50.0, 95.0, 99.0)
        known = self.percentiles_s or (self.p50_s, self.p95_s, self.p99_s)
        return float(np.interp(100 * quantile, percents, known))

    def within(self, limit_s: float) -> float | None:
        """Return the share of items within ``limit_s``, 0..1; None where only a few percentiles are known."""
        if not self.percentiles_s:
            return None
        return float(np.interp(limit_s, self.percentiles_s, PERCENTS, left=0.0)) / 100

    def statistic(self, name: str) -> float:
        """The value of ``mean``, ``p50``, ``p95`` or ``p99``, in seconds."""
        return float(getattr(self, f"{name}_s"))


@dataclass(frozen=True, slots=True)
class SizeLeftOpen:
    """Nobody has named how many items travel together: each composition has a size of its own."""

    target_s: float | None
    """Latency that each item is held to."""
    times: float = 1.0
    """What the composition that runs is given, of what the rule says for it."""


@dataclass(frozen=True, slots=True)
class Demand:
    """The items offered since the start, and what became of them before admission."""

    offered: int
    """Due by now, or come by themselves."""
    admitted: int
    missed: int
    """Given up before they were read: a held-back source makes up for so much and no more."""
    lag_s: float
    """How long the next item to be read has been due; 0 when none is."""
    growth_per_s: float | None = None
    """How fast what is due and not admitted grows, over the window."""
    offered_per_s: float | None = None
    """Over the window."""
    admitted_per_s: float | None = None
    """Over the window."""
    missed_per_s: float | None = None
    """Over the window."""
    delivered_per_s: float | None = None
    """Over the whole window, across a reset: for who looks on; it is nothing to judge a composition by."""
    held_s: float = 0.0
    """How long items have waited without a break."""
    bundle_limit: int = 1
    """Items that may travel together where so many wait, in the composition that runs."""
    size_left_open: SizeLeftOpen | None = None
    """None: ``bundle_limit`` is that of every composition which names none itself."""
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
    """A switch is under way; nothing measured now belongs to one composition alone."""
    stable_since_s: float
    """When the last switch ended, or the app started."""
    window_start_s: float
    input_rate_per_s: float | None
    """Offered: what the source is set to or asked to take, not what a full buffer lets in."""
    throughput_per_s: float | None
    delivered: int
    """Items delivered in the window."""
    latency: LatencyStats | None
    """From when an item was due (or came, where it comes by itself) to its delivery: what a user waits."""
    inside: LatencyStats | None
    """Like ``latency``, but counted from the first dispatch: without the wait in the admission buffer."""
    queued: int
    """Items waiting for admission to the composition."""
    queued_change_per_s: float | None
    """How fast ``queued`` grew over the window; negative while a backlog is worked off."""
    in_flight: int
    stages: tuple[StageProfile, ...]
    """In the app's order; stages without samples are missing."""
    cores: float
    """Cores that the workers of this app may use."""
    workers_alive: int
    hop_s: float
    """Measured price of one group-to-group hop: time between a result leaving a worker and the next worker's start."""
    input: InputNow = InputNow()
    cores_left: float | None = None
    """Of ``cores``, where other programs take some: what there seems to be. ``None``: nothing tells of it."""
    demand: Demand | None = None
    """None where nobody counts what was asked for, as in a simulation of workers alone."""

    @property
    def read_latency(self) -> LatencyStats | None:
        """From when an item was read, as the papers measure."""
        return self.latency and self.latency.from_read

    @property
    def input_rate_windows(self) -> tuple[RateWindow, ...]:
        return self.input.windows

    @property
    def counted(self) -> bool:
        """Arrivals are counted, with the scatter that counts have; the rate is not one that is set."""
        windows = self.input.windows
        return bool(windows) and windows[-1].counted

    @property
    def bundle_items(self) -> float:
        """Return how many items travel together on average, by the tasks of the profiles; 1 without a profile."""
        return fmean(stage.bundle_items for stage in self.stages) if self.stages else 1.0

    @property
    def bundle_limit(self) -> int:
        """Return how many items may travel together where so many wait; 1 where nobody says."""
        return 1 if self.demand is None else self.demand.bundle_limit

    @property
    def size_left_open(self) -> SizeLeftOpen | None:
        return None if self.demand is None else self.demand.size_left_open

    @property
    def backlog(self) -> int:
        """Items that wait: admitted, or due and not admitted yet."""
        return self.queued + (self.demand.behind if self.demand else 0)

    @property
    def backlog_change_per_s(self) -> float | None:
        """Return how fast the backlog grew over the window; negative while it is worked off."""
        if self.demand is None or self.demand.growth_per_s is None or self.queued_change_per_s is None:
            return self.queued_change_per_s
        return self.queued_change_per_s + self.demand.growth_per_s

    def as_read(self) -> Self:
        """Return what the papers would have measured: latency from the read on, and nothing of what was not read."""
        return replace(self, latency=self.read_latency, demand=None)

    def stage(self, name: str) -> StageProfile | None:
        return next((stage for stage in self.stages if stage.name == name), None)
