"""The monitor: record events as they happen, and summarize them at any time.

Recording is on the dispatcher's path, so it only appends; summaries are computed on request, at 4 Hz. Not thread-safe:
one loop owns it. All times are seconds of one monotonic clock.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from math import inf
from statistics import median

from compositions.settings import Checked, ranged
from profiler.service_time import GpuUse, ProfileSettings, ServiceTimes, on_gpus
from profiler.slo import differ
from profiler.snapshot import Demand, InputNow, RateWindow, Snapshot, StageProfile, StageTiming
from profiler.stats import Histogram, Samples, latency_stats, slope_per_s
from profiler.windows import counted_window, mean_of_steps, offered_windows, rate_per_s

MOST_GONE = 8
"""Number of machines without a worker whose hops are kept, because workers may return to them."""


class Hops:
    """The newest hops by machine. Their median is used: a mean would include pauses of the garbage collector."""

    def __init__(self, newest: int) -> None:
        self._newest = newest
        self._by_node: dict[str, deque[float]] = {}

    def add(self, hop_s: float, node: str) -> None:
        """Record a hop: the time from sending a task to a worker on ``node`` to its return, less its work."""
        found = self._by_node.get(node)
        if found is None:
            found = self._by_node[node] = deque(maxlen=self._newest)
        found.append(hop_s)

    def price_s(self, workers: Mapping[str, int]) -> float | None:
        """Return the mean hop of the ``workers`` (number by machine), in seconds; None if none was measured.

        It is not the mean of the tasks: near workers get more tasks, as they finish earlier. Far workers would hardly
        count, and a group of both would be expected to perform as if all its workers were near.
        """
        for node in [node for node in self._by_node if node not in workers][:-MOST_GONE]:
            del self._by_node[node]
        seen = {node: count for node, count in workers.items() if node in self._by_node}
        if total := sum(seen.values()):
            return sum(median(self._by_node[node]) * count for node, count in seen.items()) / total
        everywhere = [*chain.from_iterable(self._by_node.values())]
        return median(everywhere) if everywhere else None

    def on(self, node: str) -> float | None:
        """Return the hop to a worker on ``node`` and back; None if none was measured."""
        found = self._by_node.get(node)
        return median(found) if found else None


class DemandReading:
    """Records the demand on the source, and since when items have been waiting or in flight without a break."""

    def __init__(self, capacity: int, keep_s: float, growth_span_s: float) -> None:
        """``growth_span_s``: minimum time between the first and the last count for a rate."""
        self._counts = Samples(capacity, keep_s)
        self._span_s = growth_span_s
        self._latest: Demand | None = None
        self._free_s = self._empty_s = 0.0
        """Latest times at which no backlog waited, and at which there were no items at all."""

    def record(self, at_s: float, demand: Demand) -> None:
        self._latest = demand
        self._counts.add(at_s, demand.offered, demand.admitted, demand.missed)

    def waits(self, at_s: float, *, few: bool, in_flight: int = 1) -> None:
        """Record if only a few items wait at this moment, and the number of items in flight."""
        if few:
            self._free_s = at_s
            if not in_flight and not (self._latest and self._latest.behind):
                self._empty_s = at_s

    @property
    def first_s(self) -> float | None:
        """The time of the first record, if any."""
        return self._counts.at(0) if self._counts else None

    def demand(
        self, start_s: float, now_s: float, delivered_per_s: float | None, last_s: float | None
    ) -> Demand | None:
        """Return the demand and the rates of its counts since ``start_s``; None if no demand was recorded.

        ``last_s``: time of the last delivery; None if there was none.
        """
        if self._latest is None:
            return None
        stalled_s = 0.0 if last_s is None else now_s - max(self._empty_s, last_s)
        demand = replace(
            self._latest, held_s=now_s - self._free_s, delivered_per_s=delivered_per_s, stalled_s=stalled_s
        )
        first = self._counts.first_at_or_after(start_s)
        times, span_s = self._counts.times(first), self._span_s
        offered, admitted, missed = (
            slope_per_s(times, counts, min_span_s=span_s)
            for counts in (self._counts.xs(first), self._counts.ys(first), self._counts.zs(first))
        )
        if offered is None or admitted is None or missed is None:
            return demand
        growth = offered - admitted - missed
        return replace(demand, growth_per_s=growth, offered_per_s=offered, admitted_per_s=admitted, missed_per_s=missed)


@dataclass(frozen=True, slots=True)
class MonitorSettings(Checked):
    """The windows of the monitor. Raises: SettingsError if one is out of range."""

    window_s: float = ranged(10.0, 0.5, 3600, "s")
    """Longest window for decisions: the check interval of Vogel et al., section 3.2, step 6."""
    rate_window_s: float = ranged(1.0, 0.05, 600, "s")
    """Length of each of the two windows that must show a changed input rate: a step is detected within two seconds."""
    growth_span_s: float = ranged(1.0, 0.05, 600, "s")
    """Minimum time between the first and the last queue sample for a rate of growth."""
    hop_s: float = ranged(0.0003, 0, 60, "s")
    """Assumed time of a hop until one is measured: small items through the ZeroMQ hub on a 2-core machine."""
    hop_samples: int = ranged(256, 1, 1_000_000)
    """Number of newest hops of a machine whose median is used."""
    events_kept: int = ranged(32_768, 64, 100_000_000)
    """Events stored per kind: ten seconds at 3,000 items/s or 800 bundles/s; at higher rates windows are shorter."""
    profile: ProfileSettings = field(default_factory=ProfileSettings)


@dataclass(frozen=True, slots=True)
class Running:
    """The state of the running composition and its items, from the runner's loop."""

    composition: str
    switching: bool
    stable_since_s: float
    queued: int
    in_flight: int
    workers_alive: int
    cores: float | None = None
    """Number of cores if it changed since the start; None: unchanged."""
    workers_on: Mapping[str, int] = field(default_factory=dict)
    """Number of workers by machine."""
    inside_at: Mapping[str, int] = field(default_factory=dict)
    """Number of items in flight by the stage that they need next."""
    full: bool = False
    """True if the buffer before the first group is full."""
    gpus: GpuUse | None = None
    """Present use of GPUs; None if no stage asks for a GPU, or if their use is unknown."""


ROWS_A_BUNDLE = 4
"""Number of items of a bundle that are recorded, evenly spaced, and stand for their neighbours. So four seconds fit in
memory at 1,000,000 items/s in bundles of 512."""
LATENCY_BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Bucket bounds of the latency histogram, in seconds: from a light stage to a minute's backlog."""
GPU_LAG_S = 3.0
"""Largest age of a measured GPU use: it covers one second and is read every two seconds."""
AT_HAND = 2
"""Number of items that may wait without being a backlog: a paced source holds them between two tasks."""

_ONE = ((0, 1.0),)


def _standing_for(count: int) -> Sequence[tuple[int, float]]:
    """Return the positions of the recorded items among ``count`` consecutive ones, and the weight of each."""
    if count == 1:
        return _ONE
    rows = min(count, ROWS_A_BUNDLE)
    return [((2 * row + 1) * count // (2 * rows), count / rows) for row in range(rows)]


class Monitor:
    """Collects arrivals, deliveries, timings, hops and queue lengths of one running app."""

    def __init__(
        self, settings: MonitorSettings, stages: Sequence[str], cores: float, at_once: Mapping[str, int] | None = None
    ) -> None:
        """``at_once``: as in ``ServiceTimes``."""
        self._settings = settings
        self._cores = cores
        self._service_times = ServiceTimes(stages, settings.profile, at_once)
        keep_s = 2 * max(settings.window_s, settings.rate_window_s)  # only a few older events are ever needed
        self._arrivals = Samples(settings.events_kept, keep_s)
        self._arrived = 0
        self._deliveries = Samples(settings.events_kept, keep_s)
        self._queue = Samples(settings.events_kept // 8, keep_s)
        self._offered = Samples(settings.events_kept // 8, keep_s)
        self._demand = DemandReading(settings.events_kept // 8, keep_s, settings.growth_span_s)
        self.latencies = Histogram(LATENCY_BOUNDS_S)
        """Latencies of all items delivered up to the last snapshot."""
        self.hops = Hops(settings.hop_samples)
        self._gpus_busy = Samples(settings.events_kept // 8, settings.profile.horizon_s)
        self._started_s: float | None = None
        self._reset_s: float | None = None

    # --- recording ----------------------------------------------------------------------------------------------

    def record_arrivals(self, times_s: Sequence[float]) -> None:
        self._arrived += len(times_s)
        for each, items in _standing_for(len(times_s)):
            self._arrivals.add(times_s[each], items=items)

    def record_deliveries(
        self, at_s: float, arrived_s: Sequence[float], started_s: float, since_s: Sequence[float]
    ) -> None:
        """Record items delivered in order: read at ``arrived_s``, due at ``since_s``, dispatched at ``started_s``."""
        for each, items in _standing_for(len(arrived_s)):
            self._deliveries.add(at_s, at_s - since_s[each], at_s - started_s, at_s - arrived_s[each], items)

    def record_demand(self, at_s: float, demand: Demand) -> None:
        """Record the cumulative demand on the source."""
        self._demand.record(at_s, demand)

    def record_timings(self, at_s: float, timings: Sequence[StageTiming], items: int = 1) -> None:
        """Record a task's timings by stage, each for all its items. Raises: KeyError for an unknown stage."""
        self._service_times.add(at_s, timings, items)

    def record_hop(self, hop_s: float, node: str = "") -> None:
        """Record a hop: the time of a task at a worker on ``node`` beyond the time of its stages."""
        self.hops.add(hop_s, node)

    def record_queue(self, at_s: float, queued: int, in_flight: int) -> None:
        """Record the present queue lengths, for their growth; ``snapshot`` records them too."""
        self._queue.add(at_s, queued, in_flight)
        self._demand.waits(at_s, few=queued <= AT_HAND, in_flight=queued + in_flight)

    def set_offered_rate(self, at_s: float, rate_per_s: float | None) -> None:
        """Record that the source is set to this rate from now on; ``None``: no set rate, so arrivals are counted."""
        if rate_per_s is None:
            self._offered.clear()
        elif not self._offered or self._offered.last_x() != rate_per_s:
            self._offered.add(at_s, rate_per_s)

    def rate_jumped(self, before_per_s: float | None) -> bool:
        """Return True if the source is set to a much different rate than before, so no detection is needed."""
        return before_per_s is not None and bool(self._offered) and differ(self._offered.last_x(), before_per_s)

    def reset_window(self, at_s: float) -> None:
        """Start measuring anew: only items delivered from now on count (after a switch, with a new SLO)."""
        self._reset_s = at_s

    # --- the snapshot -------------------------------------------------------------------------------------------

    def snapshot(self, now_s: float, running: Running) -> Snapshot:
        """Return the measurements for the manager."""
        self.record_queue(now_s, running.queued, running.in_flight)
        self.latencies.count(self._deliveries)
        start_s = self._window_start_s(now_s, self._settings.window_s)
        first = self._deliveries.first_at_or_after(start_s)
        weights = self._deliveries.weights(first)
        latency = latency_stats(self._deliveries.xs(first), weights)
        set_per_s = self._offered.last_x() if self._offered else None
        cores = self._cores if running.cores is None else running.cores
        cores_left = self._service_times.cores_left(now_s, cores, waiting=running.queued > AT_HAND)
        return Snapshot(
            now_s=now_s,
            composition=running.composition,
            switching=running.switching,
            stable_since_s=running.stable_since_s,
            window_start_s=start_s,
            input_rate_per_s=self._input_rate(now_s, self._settings.window_s),
            throughput_per_s=self._rate_since(self._measured_since_s(now_s), now_s),
            delivered=self._deliveries.items(first),
            latency=latency and replace(latency, from_read=latency_stats(self._deliveries.zs(first), weights)),
            inside=latency_stats(self._deliveries.ys(first), weights),
            queued=running.queued,
            queued_change_per_s=self._queue_growth(start_s),
            in_flight=running.in_flight,
            stages=self._profiles(now_s, running),
            cores=cores,
            workers_alive=running.workers_alive,
            hop_s=self._settings.hop_s if (hop_s := self.hops.price_s(running.workers_on)) is None else hop_s,
            input=InputNow(self._input_rate_windows(now_s), set_per_s, self._arrived, running.full),
            cores_left=cores_left,
            demand=self._demand.demand(
                start_s,
                now_s,
                self._rate_since(self._start(now_s), now_s),
                self._deliveries.at(-1) if self._deliveries else None,
            ),
        )

    # --- how it is computed -------------------------------------------------------------------------------------

    def _profiles(self, now_s: float, running: Running) -> tuple[StageProfile, ...]:
        """Return the profiles. Until the use of the GPUs is known, a GPU counts as busy during the whole call."""
        profiles, use = self._service_times.profiles(now_s, running.inside_at), running.gpus
        if use is None or not any(each.name in use.stages for each in profiles):
            return profiles
        self._gpus_busy.add(now_s, use.busy)
        since_s = max(now_s - self._settings.profile.horizon_s, self._gpus_busy.at(0) + GPU_LAG_S)
        recent = self._gpus_busy.xs(self._gpus_busy.first_at_or_after(since_s))
        return on_gpus(profiles, replace(use, busy=float(recent.mean()) if len(recent) else inf))

    def _window_start_s(self, now_s: float, window_s: float) -> float:
        return max(self._measured_since_s(now_s), now_s - window_s)

    def _measured_since_s(self, now_s: float) -> float:
        """Return the time of the last reset, or of the start."""
        return self._start(now_s) if self._reset_s is None else self._reset_s

    def _start(self, now_s: float) -> float:
        """Return the time of the first record, or of the first summary if that was earlier."""
        if self._started_s is None:
            sources = (self._arrivals, self._deliveries, self._queue, self._offered)
            firsts = [self._demand.first_s, *(samples.at(0) for samples in sources if samples)]
            self._started_s = min((first for first in firsts if first is not None), default=now_s)
        return self._started_s

    def _rate_since(self, since_s: float, now_s: float) -> float | None:
        """Return the rate of deliveries over the part of the window after ``since_s``, in items/s."""
        window_s = self._settings.window_s
        return rate_per_s(self._deliveries, now_s, window_s=window_s, since_s=since_s, silence_s=window_s)

    def _input_rate(self, now_s: float, window_s: float) -> float | None:
        """Return the set rate over the throughput's window; if none is set, the counted rate, which resets ignore."""
        if self._offered:
            return mean_of_steps(self._offered, self._window_start_s(now_s, window_s), now_s)
        since_s = self._start(now_s)
        return rate_per_s(self._arrivals, now_s, window_s=window_s, since_s=since_s, silence_s=self._settings.window_s)

    def _input_rate_windows(self, now_s: float) -> tuple[RateWindow, ...]:
        length_s = self._settings.rate_window_s
        middle_s, start_s = now_s - length_s, now_s - 2 * length_s
        if start_s < self._start(now_s):
            return ()
        if not self._offered:
            return (counted_window(self._arrivals, start_s, middle_s), counted_window(self._arrivals, middle_s, now_s))
        return offered_windows(self._offered, (start_s, middle_s, now_s))

    def _queue_growth(self, start_s: float) -> float | None:
        first = self._queue.first_at_or_after(start_s)
        span_s = self._settings.growth_span_s
        return slope_per_s(self._queue.times(first), self._queue.xs(first), min_span_s=span_s)
