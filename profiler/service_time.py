"""Service times of stages, bottlenecks (Vogel et al., section 3.2, step 1), and the cores that other programs leave."""

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
# A computation takes its CPU time while it has a core, and longer while several computations share one. If all
# computing stages take longer for the same CPU time, and the app does not keep its cores busy itself, other programs
# use them. An operating system that shares cores fairly gives more to an app with more workers. So cores are only
# short if more workers did not get more CPU time; the CPU time that they get is then the number of cores left. Stages
# that wait show nothing about cores.

_LOOKED_S = 2.0
"""Time over which use is measured, in seconds: about ten items of a slow app."""
_TELLING = 4
"""Smallest number of timings of a stage for an estimate."""
_COMPUTES = 1.1
"""Largest ratio of wall to CPU time (stretch) of a stage that computes and does not wait."""
_ALONE, _CROWDED = 1.1, 1.3
"""Stretch of all computing stages below which the cores suffice, and from which on they do not. In between, the last
finding stays."""
_WITNESSES = 2
"""Smallest number of computing stages for a finding: a single stage may have begun to wait for something."""
_AS_THEN = 0.75
"""Smallest share of the earlier CPU use for a comparison with it; below this share, conditions have changed."""
_OWN_DOING = 0.8
"""Share of the cores from which on the app's own work counts as the cause of a stretch."""
_IN_VAIN = 0.25
"""Largest share of the CPU time per worker that an additional worker may add if cores are short."""
_SURELY = 3.0
"""Number of standard errors by which the stretch must grow. A wait for a disk or another answer grows only by chance
when workers are added."""
_IN_SIGHT = 1
"""Cores reported beyond those that the app gets: with only as many workers, a return of cores would go unnoticed."""
_BELIEVED_S = 10.0
"""Time for which a finding is kept without timings, in seconds."""
_KEPT = 64
"""Number of remembered periods in which cores were short."""


@dataclass(frozen=True, slots=True)
class _Recent:
    """The recent times of a stage, in seconds."""

    rows: int
    wall_s: float
    cpu_s: float
    off_s2: float
    """Sum of squared differences between wall times and stretch times CPU times."""

    @property
    def stretch(self) -> float:
        """Ratio of wall time to CPU time."""
        return self.wall_s / self.cpu_s if self.cpu_s > 0 else inf


@dataclass(frozen=True, slots=True)
class _Use:
    """The mean use of the cores over the last ``_LOOKED_S`` seconds."""

    at_s: float
    busy: float
    """Mean number of concurrent calls."""
    got: float
    """CPU time per second, in cores."""
    stretch: float
    """Ratio of wall to CPU time of the computing stages."""
    error: float
    """Standard error of ``stretch``."""

    def in_vain(self, since: "_Use") -> bool:
        """Return True if more concurrent calls than at ``since`` get hardly more CPU time, and their stretch grew."""
        more = self.busy - since.busy
        longer = self.stretch - since.stretch > _SURELY * hypot(self.error, since.error)
        return more >= 1 and longer and self.got - since.got <= _IN_VAIN * more * since.got / since.busy


class CoresLeft:
    """Estimates the cores that other programs leave to the app, and remembers when they were short."""

    def __init__(self) -> None:
        self._computing: set[str] = set()
        self._crowded: _Use | None = None
        """The use with the fewest concurrent calls since the stretch grew; None while the cores suffice."""
        self._got = 0.0
        """Most cores that the app got since cores are short; 0 while they are not."""
        self._told_s = -inf
        """Time of the latest timings that showed a shortage."""
        self._short: deque[tuple[float, float]] = deque(maxlen=_KEPT)
        """Periods in which cores were short: begin and end."""

    def look(self, now_s: float, samples: Mapping[str, Samples], cores: float, *, waiting: bool) -> float | None:
        """Return the estimated cores left to an app that may use ``cores``; ``None``: all of them.

        ``samples``: wall (``x``) and CPU (``y``) seconds per item, by stage. ``waiting``: items wait, so the app could
        use more CPU time than it gets."""
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
        """Return the wall times of ``stage`` without other programs: the CPU times of a computing stage in periods in
        which cores were short, else ``wall_s``."""
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
    """The samples for a profile. With the defaults, samples of an earlier phase of the app fade within seconds."""

    horizon_s: float = ranged(30.0, 1, 3600, "s")
    """Maximum age of samples: three check intervals of Vogel et al., so that a slow app still has some."""
    max_samples: int = ranged(512, 1, 1_000_000)
    """Maximum number of newest samples: the error of the mean is then cv/23."""
    min_span_s: float = ranged(2.0, 0, 600, "s")
    """Minimum time span, even with more samples: at thousands of items/s, 512 samples cover a tenth of a second."""
    newest_samples: int = ranged(8, 1, 100_000)
    """Number of newest samples that count at any age, for stages that run once a minute."""
    timings_kept: int = ranged(4096, 16, 10_000_000)
    """Samples stored per stage, one per task: 2 s at 2,000 items/s; at higher rates the span is shorter."""


class ServiceTimes:
    """Timings of all stages of one app, in the app's order."""

    def __init__(
        self, stages: Sequence[str], settings: ProfileSettings | None = None, at_once: Mapping[str, int] | None = None
    ) -> None:
        """``at_once``: concurrent calls per worker, by stage, for stages that wait."""
        self._at_once = at_once or {}
        self._settings = settings if settings is not None else ProfileSettings()
        self._samples = {stage: Samples(self._settings.timings_kept) for stage in stages}
        self._left = CoresLeft()
        self._done, self._worked_s = dict.fromkeys(stages, 0), dict.fromkeys(stages, 0.0)

    def add(self, at_s: float, timings: Sequence[StageTiming], items: int = 1) -> None:
        """Add the timings of one finished task: the times of each stage for all its ``items`` together.

        Raises: KeyError for a stage the app does not have.
        """
        for timing in timings:
            self._samples[timing.stage].add(at_s, timing.wall_s / items, timing.cpu_s / items, items=items)
            self._done[timing.stage] += items
            self._worked_s[timing.stage] += timing.wall_s

    def profiles(self, now_s: float, inside_at: Mapping[str, int] | None = None) -> tuple[StageProfile, ...]:
        """Return one profile per stage, in the app's order; stages without samples are missing. The slowdown by other
        programs (``cores_left``) is excluded."""
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
        """Return the estimated cores that other programs leave of ``cores``; ``waiting``: items of the app wait."""
        return self._left.look(now_s, self._samples, cores, waiting=waiting)


def window_start(samples: Samples, now_s: float, settings: ProfileSettings) -> int:
    """Return the index of the first sample that counts at ``now_s``."""
    known = len(samples)
    in_horizon = known - samples.first_at_or_after(now_s - settings.horizon_s)
    in_span = known - samples.first_at_or_after(now_s - settings.min_span_s)
    counted = min(in_horizon, max(settings.max_samples, in_span))
    return max(0, known - max(counted, settings.newest_samples))


def profile_of(stage: str, samples: Samples, now_s: float, settings: ProfileSettings, left: CoresLeft) -> StageProfile:
    """Return the profile of a stage from its samples (``x`` wall, ``y`` CPU seconds per item), of which it has some.

    Only the mean of items that were timed together is known. The scatter of items follows from that of the means: the
    mean of ``n`` independent items has ``1/n`` of their variance.
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
    """Return the stage whose mean service time is at least ``threshold`` above that of every other one, or none.

    Vogel et al., section 3.2, step 1. At most one stage can be that much above *every* other; a single stage always is.
    """
    heaviest = next_bottleneck(profiles, (), threshold)
    return () if heaviest is None else (heaviest,)


def next_bottleneck(profiles: Sequence[StageProfile], tagged: Collection[str], threshold: float = 0.2) -> str | None:
    """Return an additional bottleneck if the SLO is missed again, by the same rule among the untagged stages.

    Vogel et al., section 3.2, step 6. ``None`` if no untagged stage stands out, or none is left.
    """
    rest = sorted((p for p in profiles if p.name not in tagged), key=lambda p: -_pace_s(p))
    if not rest:
        return None
    stands_out = len(rest) == 1 or _pace_s(rest[0]) >= (1 + threshold) * _pace_s(rest[1]) * (1 - EQUAL)
    return rest[0].name if stands_out else None


def _pace_s(profile: StageProfile) -> float:
    """Return the time between two items of a worker that runs only this stage, in seconds."""
    return profile.service_time_s / profile.at_once


# --- costs of stages on free cores -----------------------------------------------------------------------------------

SATURATED_FROM, SATURATED_TO = 0.7, 0.95
"""Busy shares of the cores: below the first no contention is assumed, from the second on full contention."""


def crowding(profiles: Sequence[StageProfile], cores: float) -> float:
    """Return the busy workers per core, at least 1.0: an upper bound of the slowdown of stages.

    If cores are idle, busy workers wait for something else. So no crowding is counted below 70 % use of the cores, all
    of it from 95 % on, and a share in between, so that costs do not jump.
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
    """Names of the stages that use a GPU."""
    shares: Mapping[str, float]
    """GPUs that a worker for the stage alone reserves, by stage; may be a fraction."""
    reserved: float
    """Number of GPUs that all workers reserve."""
    busy: float
    """Mean number of busy GPUs, use by other programs included."""


def on_gpus(profiles: Sequence[StageProfile], use: GpuUse) -> tuple[StageProfile, ...]:
    """Return the profiles with an item's time on a GPU, and its time of waiting for one.

    A GPU works for one call at a time. By the utilization law, its time for an item is the call's time multiplied by
    the ratio of busy GPUs to concurrent calls. If the GPUs are saturated, the rest of a call's time, apart from CPU
    time, counts as waiting for a GPU.
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
    """Return the number of cores that a worker keeps busy while it runs only this stage: above 1 if the stage has
    threads of its own, at most 1 if it has several calls that wait."""
    alone = profile.cpu_time_s / max(free_service_s(profile, crowd), 1e-12)
    return alone if profile.at_once == 1 else min(1.0, profile.at_once * alone)


def free_service_s(profile: StageProfile, crowd: float) -> float:
    """Return the service time without other workers on the stage's core or GPU, in seconds.

    Wall time is CPU time, plus waits of the stage (sleep, I/O, an accelerator), plus the time it was ready but another
    worker had the core. With ``crowd`` busy workers per core and a fair scheduler, the last part is at most
    ``(crowd - 1)`` times the CPU time. That much is subtracted, but the result is at least the CPU time. So a CPU-bound
    stage loses its contention (wall 40 ms, CPU 20 ms, two workers per core: 20 ms), and a stage that sleeps has no CPU
    time and keeps its sleep. The result for a stage that does both is too low by at most its CPU time times
    ``crowd - 1``, and only while the cores are saturated.

    A low percentile of wall less CPU time is no measure of the waits: for a varying sleep it shows the shortest, and
    for a long stage under lasting contention every sample includes contention.
    """
    without_contention = profile.service_time_s - (crowd - 1.0) * profile.cpu_time_s - profile.gpu_wait_s
    return min(profile.service_time_s, max(without_contention, profile.cpu_time_s + profile.gpu_s))


def stage_costs(profiles: Sequence[StageProfile], cores: float) -> Mapping[str, StageCost]:
    """Return the costs for the capacity model, by stage name, without contention."""
    crowd = crowding(profiles, cores)
    return {
        p.name: StageCost(free_service_s(p, crowd), p.cpu_time_s, p.cv, p.at_once, p.gpu_s, p.gpus) for p in profiles
    }
