"""The suite: loads in groups, each put to an app of three stages on a machine of ten cores.

Times are shares of the run, so that a short run has all of what a long one has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal

from apps.input.rates import Binary, Decreasing, Rate, Spike, Trace
from apps.input.traces import read_arrivals
from compositions.enumeration import generate
from compositions.errors import RecomposeError
from compositions.model import Composition, Stage
from profiler.slo import Slo
from runtime.pools.simulated_machine import Machine
from service.gym.loads import LOADS, MakeLoad, Span
from service.gym.task import Task
from service.running.simulated.scenario import Happening, SimulatedStage

LOW_PER_S, HIGH_PER_S, DURATION_S = 4.0, 30.0, 240.0
STAGES = (SimulatedStage("read", 0.02, 0.5), SimulatedStage("detect", 0.12, 0.5), SimulatedStage("draw", 0.05, 0.5))
CORES, BOUND_S, SHARE = 10, 0.5, 0.95
_APART_S = 0.1
"""Between losses right after each other: the first is known of by then, so that it is not lost again."""

Arrivals = Literal["paced", "poisson"]


@dataclass(frozen=True, slots=True)
class Disturbance:
    """What happens besides the rate; ``at`` and ``until`` are shares of the run."""

    kind: Literal["slower", "worker lost", "cores taken"]
    at: float
    until: float = 1.0
    factor: float = 1.0
    """Of the service time of the heaviest stage, reached at ``until``."""
    count: int = 1
    """Cores that are taken, or workers that are lost one right after the other."""


@dataclass(frozen=True, slots=True)
class Load:
    """One of the suite."""

    name: str
    group: str
    rate: MakeLoad
    arrivals: Arrivals = "paced"
    disturbances: tuple[Disturbance, ...] = ()
    announced: tuple[float, float] | None = None
    """Crowds of that length in each period (s), which somebody announces before the run."""


def _both(group: str, name: str, rate: MakeLoad, *disturbances: Disturbance) -> tuple[Load, Load]:
    paced = Load(f"{name} (paced)", group, rate, "paced", disturbances)
    return paced, replace(paced, name=f"{name} (Poisson)", arrivals="poisson")


def _told(length_s: float, period_s: float) -> Iterator[Load]:
    name = f"announced crowd of {length_s:g} in {period_s:g} s"
    for load in _both("announced", name, lambda span, seed: span.crowds(length_s, period_s)):
        yield replace(load, announced=(length_s, period_s))


def _middle(span: Span, seed: int) -> Rate:
    """A wave over the middle of the span: room is left for what else happens."""
    return replace(span, high_per_s=(span.low_per_s + span.high_per_s) / 2 + span.low_per_s).wave(60.0)


_SLOWER = Disturbance("slower", 0.3, 0.6, 1.5)
_SUDDEN = Disturbance("slower", 0.5, 0.501, 1.5)
_LOST = tuple(Disturbance("worker lost", at) for at in (0.2, 0.4, 0.6, 0.8))
_LOST_TOGETHER = (Disturbance("worker lost", 0.35, count=3), Disturbance("worker lost", 0.7, count=3))
_TAKEN = Disturbance("cores taken", 0.4, 0.6, count=7)
_TAKEN_SHORT = tuple(Disturbance("cores taken", at, at + 0.05, count=7) for at in (0.25, 0.5, 0.75))

SUITE: tuple[Load, ...] = (
    *_both("patterns", "wave of 60 s", LOADS["wave of 60 s"]),
    *_both("patterns", "wave of 180 s", LOADS["wave of 180 s"]),
    Load("binary of 60 s", "patterns", lambda span, seed: Binary(60.0, span.low_per_s, span.high_per_s)),
    Load("spike of 60 s", "patterns", lambda span, seed: Spike(60.0, span.low_per_s, span.high_per_s)),
    Load("increasing", "patterns", LOADS["ramp"]),
    Load("decreasing", "patterns", lambda span, seed: Decreasing(span.duration_s, span.low_per_s, span.high_per_s)),
    *_both("steps", "a new rate every 60 s", LOADS["steps of 60 s"]),
    *_both("steps", "a new rate every 20 s", lambda span, seed: span.held(20.0, seed)),
    *_both("crowds", "crowd of 12 in 60 s", LOADS["crowd, 12 of 60 s"]),
    *_both("crowds", "crowd of 24 in 120 s", LOADS["crowd, 24 of 120 s"]),
    Load("one crowd", "crowds", lambda span, seed: span.crowds(span.duration_s / 10, 0.7 * span.duration_s)),
    *(
        replace(load, announced=(12.0, 60.0))
        for load in _both("announced", "announced crowd of 12 in 60 s", LOADS["crowd, 12 of 60 s"])
    ),
    replace(Load("announced crowd of 24 in 120 s", "announced", LOADS["crowd, 24 of 120 s"]), announced=(24.0, 120.0)),
    *_both("random", "a new rate every 5 s", LOADS["random, every 5 s"]),
    Load("a new rate every second", "random", lambda span, seed: span.held(1.0, seed)),
    *_both("constant", "constant", LOADS["constant"]),
    *_both("drift", "half as slow again by and by", _middle, _SLOWER),
    *_both("drift", "half as slow again at once", _middle, _SUDDEN),
    *_both("losses", "a worker lost four times", _middle, *_LOST),
    *_both("losses", "three workers lost at once", _middle, *_LOST_TOGETHER),
    *_both("neighbours", "seven of ten cores taken for a fifth of the time", _middle, _TAKEN),
    Load("seven of ten cores taken three times", "neighbours", _middle, "paced", _TAKEN_SHORT),
)
QUICK = ("wave of 60 s (paced)", "crowd of 12 in 60 s (Poisson)", "a worker lost four times (paced)")
"""Loads of a quick run."""
GROUPS = tuple(dict.fromkeys(load.group for load in SUITE))


def chosen(groups: Sequence[str], traces: Sequence[Path] = ()) -> tuple[Load, ...]:
    """Loads of these groups, or with these names; all without any. Traces are a group of their own.

    Raises: RecomposeError for one that there is not, or a trace that cannot be read.
    """
    recorded = tuple(load for path in traces for load in _recorded(path))
    known = {*GROUPS, *(load.name for load in SUITE), *(["traces"] if traces else [])}
    for group in groups:
        if group not in known:
            there = ", ".join(GROUPS)
            raise RecomposeError(f"unknown load {group!r}; there are the groups {there}, and traces with --trace FILE")
    return tuple(each for each in (*SUITE, *recorded) if not groups or each.group in groups or each.name in groups)


def task_of(load: Load, seed: int, duration_s: float = DURATION_S) -> Task:
    """What a policy is put to."""
    span = Span(LOW_PER_S, HIGH_PER_S, duration_s)
    slo = Slo("latency", 1e3 * BOUND_S, statistic="share", share=SHARE)
    told = span.announced(*load.announced) if load.announced else ()
    happenings = (
        *(Happening(0.0, "announce", announcement=each) for each in told),
        *(each for kind in load.disturbances for each in _happenings(kind, duration_s)),
    )
    stages = tuple(replace(s, factors=_factors(load, duration_s)) if s.name == "detect" else s for s in STAGES)
    machine, rate, listed = Machine(CORES), load.rate(span, seed), _compositions()
    return Task(stages, listed, machine, rate, slo, BOUND_S, load.arrivals, duration_s, seed, happenings)


@cache
def _compositions() -> tuple[Composition, ...]:
    return tuple(generate([Stage(each.name) for each in STAGES], max_workers=CORES, replicas=range(1, CORES + 1)))


def _happenings(what: Disturbance, duration_s: float) -> tuple[Happening, ...]:
    if what.kind == "worker lost":
        return tuple(Happening(what.at * duration_s + _APART_S * n, "lose_worker") for n in range(what.count))
    if what.kind == "cores taken":
        left = Happening(what.at * duration_s, "cores", cores=CORES - what.count)
        return left, Happening(what.until * duration_s, "cores", cores=CORES)
    return ()


def _factors(load: Load, duration_s: float) -> tuple[tuple[float, float], ...]:
    slower = [each for each in load.disturbances if each.kind == "slower"]
    return tuple(p for s in slower for p in ((s.at * duration_s, 1.0), (s.until * duration_s, s.factor)))


def _recorded(path: Path) -> tuple[Load, Load]:
    """The arrivals of a file as the rate: pressed into the run, with its busiest moment at the highest rate."""
    arrivals_s = read_arrivals(path)
    return _both("traces", path.name, lambda span, seed: Trace(arrivals_s, span.duration_s, span.high_per_s))
