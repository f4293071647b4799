"""Service time of every stage while busy, its bottlenecks (Vogel et al., section 3.2, step 1), and the cores left."""

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import hypot, inf, sqrt

import numpy as np

from compositions.capacity.costs import StageCost, devices
from compositions.settings import Checked, ranged
from profiler.snapshot import StageProfile, StageTiming
from profiler.stats import Floats, Samples, mean_of, percentiles, product

# Estimate how many cores an app gets while other programs use some, from the timings of its own stages alone.
#
# A computation takes as long as its CPU time while it has a core, and longer while several share one. If all that
# computes takes longer at once for the same CPU time, and the app does not keep its cores busy itself, other programs
# use them. An operating system that shares cores fairly gives more to an app with more workers. So cores are only
# short for the app when more workers have brought no more: what it gets then is the CPU time that it was given. Stages
# that wait say nothing about cores.

_LOOKED_S = 2.0
"""What is measured is that of so long: some ten items of a slow app."""
_TELLING = 4
"""Timings of a stage from which on it tells something."""
_COMPUTES = 1.1
"""Wall time over CPU time up to which a stage computes and does not wait."""
_ALONE, _CROWDED = 1.1, 1.3
"""The same of all stages that compute: below the first the cores suffice, and from the second on they do not. Between
them it is as it was."""
_WITNESSES = 2
"""So many stages have to say so: one that takes longer by itself may have begun to wait for something."""
_AS_THEN = 0.75
"""Share of what it got then below which something else is the matter by now, and what was seen then tells nothing."""
_OWN_DOING = 0.8
"""Share of the cores from which on they are busy with the app's own work."""
_IN_VAIN = 0.25
"""Share of what each worker had, up to which a further one has brought nothing."""
_SURELY = 3.0
"""Standard errors by which work takes longer for it: what waits for a disk or another's answer, with each worker as
before, does so by chance only."""
_IN_SIGHT = 1
"""Cores beyond what the app gets: with as many workers as cores nothing would tell that there are more again."""
_BELIEVED_S = 10.0
"""For so long where no timings come."""
_KEPT = 64
"""Times in which cores were short."""


@dataclass(frozen=True, slots=True)
class _Recent:
    """The recent times of a stage, in seconds."""

    rows: int
    wall_s: float
    cpu_s: float
    off_s2: float
    """Sum of squares of what its wall times are off those that its stretch would give."""

    @property
    def stretch(self) -> float:
        """Wall time over CPU time."""
        return self.wall_s / self.cpu_s if self.cpu_s > 0 else inf


@dataclass(frozen=True, slots=True)
class _Use:
    """The use of the cores, on average over the seconds before."""

    at_s: float
    busy: float
    """Calls at a time."""
    got: float
    """Cores' worth of CPU time."""
    stretch: float
    """Of the stages that compute."""
    error: float
    """Its standard error."""

    def in_vain(self, since: "_Use") -> bool:
        """More work at a time than at ``since`` has brought no more, and takes the longer for it."""
        more = self.busy - since.busy
        longer = self.stretch - since.stretch > _SURELY * hypot(self.error, since.error)
        return more >= 1 and longer and self.got - since.got <= _IN_VAIN * more * since.got / since.busy


class CoresLeft:
    """Remembers which stages compute, and when the cores were short."""

    def __init__(self) -> None:
        self._computing: set[str] = set()
        self._crowded: _Use | None = None
        """With the least work at a time since it takes longer."""
        self._got = 0.0
        """The most cores that the app got since they are short; 0 while they are not."""
        self._told_s = -inf
        """When timings last said so."""
        self._short: deque[tuple[float, float]] = deque(maxlen=_KEPT)
        """From when to when they were."""

    def look(self, now_s: float, samples: Mapping[str, Samples], cores: float, *, waiting: bool) -> float | None:
        """Cores that there seem to be for an app which may use ``cores``; ``None``: all of them.

        ``samples``: of each stage, wall (``x``) and CPU (``y``) seconds an item; ``waiting``: items do, so that what
        the app gets is not what it asks for."""
        recent = {stage: _recent(kept, now_s) for stage, kept in samples.items()}
        known = {stage: each for stage, each in recent.items() if each.rows >= _TELLING}
        self._computing.update(stage for stage, each in known.items() if each.stretch <= _COMPUTES)
        witnesses = [each for stage, each in known.items() if stage in self._computing]
        if len(witnesses) >= _WITNESSES:
            busy, got = (sum(getattr(each, of) for each in recent.values()) / _LOOKED_S for of in ("wall_s", "cpu_s"))
            self._judge(_use(now_s, busy, got, witnesses), witnesses, cores, waiting=waiting)
        elif self._got and now_s - self._told_s > _BELIEVED_S:
            self._end(now_s)
        return min(cores, round(self._got) + _IN_SIGHT) if self._got else None

    def undisturbed(self, stage: str, at_s: Floats, wall_s: Floats, cpu_s: Floats) -> Floats:
        """``wall_s`` of timings of ``stage`` as they would have been without others: what was computed while the cores
        were short took its CPU time."""
        if stage not in self._computing:
            return wall_s
        for from_s, until_s in self._short:
            wall_s = np.where((at_s >= from_s) & (at_s <= until_s), cpu_s, wall_s)
        return wall_s

    def _judge(self, now: _Use, witnesses: Sequence[_Recent], cores: float, *, waiting: bool) -> None:
        if now.stretch < _ALONE or now.got >= _OWN_DOING * cores:
            self._crowded = None
            if self._got:
                self._end(now.at_s)
            return
        if waiting and now.stretch >= _CROWDED and min(each.stretch for each in witnesses) > _ALONE:
            then = self._crowded or now
            if now.busy < then.busy or now.got < _AS_THEN * then.got:
                then = now
            self._crowded = then
            if not self._got and now.in_vain(then) and round(now.got) + _IN_SIGHT < cores:
                self._short.append((then.at_s - _LOOKED_S, inf))
                self._got = now.got
        if self._got:
            self._got, self._told_s = max(self._got, now.got), now.at_s

    def _end(self, now_s: float) -> None:
        self._short[-1] = (self._short[-1][0], now_s)
        self._got = 0.0


def _use(now_s: float, busy: float, got: float, witnesses: Sequence[_Recent]) -> _Use:
    wall_s, cpu_s, off_s2 = (sum(getattr(each, of) for each in witnesses) for of in ("wall_s", "cpu_s", "off_s2"))
    return _Use(now_s, busy, got, wall_s / cpu_s, sqrt(off_s2) / cpu_s)


def _recent(samples: Samples, now_s: float) -> _Recent:
    start = samples.first_at_or_after(now_s - _LOOKED_S)
    wall_s, cpu_s, weights = samples.xs(start), samples.ys(start), samples.weights(start)
    items = np.ones_like(wall_s) if weights is None else weights
    wall, cpu = float((items * wall_s).sum()), float((items * cpu_s).sum())
    off_s = wall_s - (wall / cpu if cpu > 0 else 0.0) * cpu_s
    return _Recent(len(wall_s), wall, cpu, float((items * items * off_s * off_s).sum()))


EQUAL = 1e-9
"""Relative difference below which two service times are equal: 1.2 x 0.02 s must count as 20 % above 0.02 s."""


@dataclass(frozen=True, slots=True)
class ProfileSettings(Checked):
    """The samples that a profile rests on. The defaults let an old phase of the app fade within seconds."""

    horizon_s: float = ranged(30.0, 1, 3600, "s")
    """Older samples are left out: three check intervals of Vogel et al., in which a slow app still collects some."""
    max_samples: int = ranged(512, 1, 1_000_000)
    """At most so many of the newest: the mean is then known to cv/23."""
    min_span_s: float = ranged(2.0, 0, 600, "s")
    """... but never less than this time: at thousands of items a second 512 are a tenth of a second, one hiccup."""
    newest_samples: int = ranged(8, 1, 100_000)
    """The newest so many count whatever their age: of a stage that ran once a minute nothing better is known."""
    timings_kept: int = ranged(4096, 16, 10_000_000)
    """Samples stored a stage, one a task: 2 s at 2,000 items/s; beyond that rate the span is shorter."""


class ServiceTimes:
    """Timings of all stages of one app, in the app's order."""

    def __init__(
        self, stages: Sequence[str], settings: ProfileSettings | None = None, at_once: Mapping[str, int] | None = None
    ) -> None:
        """``at_once``: calls that one worker has at a time, of stages that wait."""
        self._at_once = at_once or {}
        self._settings = settings if settings is not None else ProfileSettings()
        self._samples = {stage: Samples(self._settings.timings_kept) for stage in stages}
        self._left = CoresLeft()
        self._done, self._worked_s = dict.fromkeys(stages, 0), dict.fromkeys(stages, 0.0)

    def add(self, at_s: float, timings: Sequence[StageTiming], items: int = 1) -> None:
        """Take the timings of one task that came back: what each stage took for its ``items`` together.

        Raises: KeyError for a stage the app does not have.
        """
        for timing in timings:
            self._samples[timing.stage].add(at_s, timing.wall_s / items, timing.cpu_s / items, items=items)
            self._done[timing.stage] += items
            self._worked_s[timing.stage] += timing.wall_s

    def profiles(self, now_s: float, inside_at: Mapping[str, int] | None = None) -> tuple[StageProfile, ...]:
        """One profile a stage, in the app's order; stages without samples are missing. What other programs took of the
        cores (``cores_left``) is not in it."""
        known = {stage: samples for stage, samples in self._samples.items() if samples}
        return tuple(
            replace(
                profile_of(stage, samples, now_s, self._settings, self._left),
                at_once=self._at_once.get(stage, 1),
                done=self._done[stage],
                worked_s=self._worked_s[stage],
                inside=(inside_at or {}).get(stage, 0),
            )
            for stage, samples in known.items()
        )

    def cores_left(self, now_s: float, cores: float, *, waiting: bool) -> float | None:
        """Return the cores that other programs seem to leave of ``cores``; ``waiting``: items of the app do."""
        return self._left.look(now_s, self._samples, cores, waiting=waiting)


def window_start(samples: Samples, now_s: float, settings: ProfileSettings) -> int:
    """Index of the first sample that counts at ``now_s``."""
    known = len(samples)
    in_horizon = known - samples.first_at_or_after(now_s - settings.horizon_s)
    in_span = known - samples.first_at_or_after(now_s - settings.min_span_s)
    counted = min(in_horizon, max(settings.max_samples, in_span))
    return max(0, known - max(counted, settings.newest_samples))


def profile_of(stage: str, samples: Samples, now_s: float, settings: ProfileSettings, left: CoresLeft) -> StageProfile:
    """The profile of one stage from its samples (``x`` wall, ``y`` CPU seconds an item): there is at least one.

    Of items that were timed together the mean is known, and their scatter by that of the means: ``n`` independent items
    have a mean with ``1/n`` of the variance.
    """
    start = window_start(samples, now_s, settings)
    cpu, weights = samples.ys(start), samples.weights(start)
    wall = left.undisturbed(stage, samples.times(start), samples.xs(start), cpu)
    mean = mean_of(wall, weights)
    squares = (wall - mean) ** 2
    scatter = float(np.sqrt(np.mean(squares if weights is None else weights * squares)))
    p50, p95 = percentiles(wall, weights, (50, 95))
    items, busy_s = samples.items(start), float(wall.sum()) if weights is None else product(wall, weights)
    span_s = now_s - samples.at(start) + mean
    return StageProfile(
        name=stage,
        service_time_s=mean,
        cpu_time_s=mean_of(cpu, weights),
        cv=scatter / mean if mean > 0 else 0.0,
        p50_s=p50,
        p95_s=p95,
        samples=items,
        busy=busy_s / span_s if span_s > 0 else 0.0,
        bundle_items=items / len(wall),
    )


# --- bottlenecks -----------------------------------------------------------------------------------------------------


def bottlenecks(profiles: Sequence[StageProfile], threshold: float = 0.2) -> tuple[str, ...]:
    """The stage whose mean service time is at least ``threshold`` above that of every other one, or none.

    Vogel et al., section 3.2, step 1. At most one stage can be that much above *every* other; a single stage always is.
    """
    heaviest = next_bottleneck(profiles, (), threshold)
    return () if heaviest is None else (heaviest,)


def next_bottleneck(profiles: Sequence[StageProfile], tagged: Collection[str], threshold: float = 0.2) -> str | None:
    """The additional bottleneck to tag when the SLO is missed again: judged by the same rule among the untagged rest.

    Vogel et al., section 3.2, step 6. ``None`` when no untagged stage stands out, or none is left.
    """
    rest = sorted((p for p in profiles if p.name not in tagged), key=lambda p: -_pace_s(p))
    if not rest:
        return None
    stands_out = len(rest) == 1 or _pace_s(rest[0]) >= (1 + threshold) * _pace_s(rest[1]) * (1 - EQUAL)
    return rest[0].name if stands_out else None


def _pace_s(profile: StageProfile) -> float:
    """Time between two items of a worker that runs nothing else."""
    return profile.service_time_s / profile.at_once


# --- what a stage costs on free cores --------------------------------------------------------------------------------

SATURATED_FROM, SATURATED_TO = 0.7, 0.95
"""Share of the cores that the stages keep busy, below which no contention is assumed, and from which on all of it."""


def crowding(profiles: Sequence[StageProfile], cores: float) -> float:
    """Return how many busy workers share a core, 1.0 where the cores are not the limit; an upper bound of the
    inflation.

    Busy workers on cores that stand idle are waiting for something else, so nothing is counted below 70 % of the cores'
    CPU time, all of it from 95 % on, and a share in between, so that a cost does not jump.
    """
    busy = sum(p.busy if p.at_once == 1 else p.busy * p.cpu_time_s / max(p.service_time_s, 1e-12) for p in profiles)
    cpu_busy = sum(p.busy * p.cpu_time_s / p.service_time_s for p in profiles if p.service_time_s > 0)
    return 1.0 + max(0.0, busy / cores - 1.0) * _used_up(cpu_busy / cores)


def _used_up(use: float) -> float:
    return min(1.0, max(0.0, (use - SATURATED_FROM) / (SATURATED_TO - SATURATED_FROM)))


@dataclass(frozen=True, slots=True)
class GpuUse:
    """The use of the GPUs by the running composition."""

    stages: Collection[str]
    """Those that work on a GPU."""
    shares: Mapping[str, float]
    """The share of a GPU that a worker reserves for which this is the only stage, by stage."""
    reserved: float
    """GPUs that all workers reserve."""
    busy: float
    """GPUs that are at work, on average; those of other programs are counted as well."""


def on_gpus(profiles: Sequence[StageProfile], use: GpuUse) -> tuple[StageProfile, ...]:
    """Return the profiles with what the GPUs work for an item, and what it waits for them.

    A GPU works for one call at a time. Its time for an item is its use over the rate (utilization law): of what calls
    take, the part that GPUs at work are of the calls under way. If the GPUs are used up, a call that neither computes
    nor has its GPU waits for those of other workers.
    """
    calls = sum(p.busy for p in profiles if p.name in use.stages)
    part = min(1.0, use.busy / calls) if calls > 0 else 0.0
    full = _used_up(use.busy / float(devices(use.reserved)))

    def known(p: StageProfile) -> StageProfile:
        gpu_s = part * p.service_time_s if p.name in use.stages else 0.0
        wait_s = full * max(0.0, p.service_time_s - gpu_s - p.cpu_time_s) if gpu_s else 0.0
        return replace(p, gpus=use.shares[p.name], gpu_s=gpu_s, gpu_wait_s=wait_s)

    return tuple(map(known, profiles))


def cores_of(profile: StageProfile, crowd: float) -> float:
    """Return the cores that a worker keeps busy while it runs the stage alone: more than one with threads of its own,
    and at most one where it has several calls that wait."""
    alone = profile.cpu_time_s / max(free_service_s(profile, crowd), 1e-12)
    return alone if profile.at_once == 1 else min(1.0, profile.at_once * alone)


def free_service_s(profile: StageProfile, crowd: float) -> float:
    """Service time the stage would have if no other worker wanted its core or its GPU, seconds.

    Wall time is CPU time, plus what the stage waits for (sleep, I/O, an accelerator), plus the time it was ready but
    another worker had the core. With ``crowd`` busy workers on a core and a fair scheduler the last part is at most
    ``(crowd - 1)`` times the CPU time, so that much is taken off, and never more than leaves the CPU time. So a
    CPU-bound stage loses its contention (wall 40 ms, CPU 20 ms, two workers a core: 20 ms), and a stage that sleeps
    has no CPU time to multiply and keeps its sleep. A stage that does both comes out too cheap by at most its CPU time
    times ``crowd - 1``, and only while the cores are saturated.

    A low percentile of wall less CPU time would not do as the wait: of a sleep that varies it shows the shortest, and
    of a long stage under lasting contention every single sample is contended.
    """
    without_contention = profile.service_time_s - (crowd - 1.0) * profile.cpu_time_s - profile.gpu_wait_s
    return min(profile.service_time_s, max(without_contention, profile.cpu_time_s + profile.gpu_s))


def stage_costs(profiles: Sequence[StageProfile], cores: float) -> Mapping[str, StageCost]:
    """Return what the capacity model needs, by stage name: free service time, CPU time, both in seconds, and cv."""
    crowd = crowding(profiles, cores)
    return {
        p.name: StageCost(free_service_s(p, crowd), p.cpu_time_s, p.cv, p.at_once, p.gpu_s, p.gpus) for p in profiles
    }
