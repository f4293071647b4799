"""Define the recorded scenarios: an app, its composition, its load, and what happens on the way."""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from apps.contract import App
from apps.registry import create
from apps.synthetic.app import burn, lognormal, rest, uniform
from compositions.errors import RecomposeError
from compositions.model import Composition, Stage, StageKind
from lab.benchmarks.harness import cores
from runtime.pools.execute import run_stages

CHECK_S, FETCH_S, TOTAL_S = 0.006, 0.020, 0.004
CV = 0.5
ITEMS = 10_000


class Ledger(App):
    """Check an entry, fetch what belongs to it, and add it to the total."""

    name: ClassVar[str] = "ledger"
    stages = (Stage("check"), Stage("fetch"), Stage("total", StageKind.STATEFUL))

    def items(self, path: Path | None) -> Iterator[int]:
        return iter(range(ITEMS))

    def check(self, entry: int) -> int:
        burn(CHECK_S * _variation(entry, 0), time.thread_time())
        return entry

    def fetch(self, entry: int) -> int:
        rest(FETCH_S * _variation(entry, 1), time.perf_counter())
        return entry

    def total(self, entry: int, state: int | None) -> tuple[int, int]:
        burn(TOTAL_S * _variation(entry, 2), time.thread_time())
        total = (state or 0) + entry
        return total, total


def _variation(entry: int, stage: int) -> float:
    return lognormal(uniform(0, entry, stage), CV)


Floats = npt.NDArray[np.float64]
Load = Literal["even", "poisson", "waves", "bursts"]

DATA = "RECOMPOSE_DATA"
KILL = "kill"
"""Instead of a composition: the oldest worker dies."""
WAVE_S, WAVE_SWING = 15.0, 0.6
BURST_EVERY_S, BURST_S, BURST_FACTOR = 10.0, 2.0, 3.0
SAMPLES = 40
"""Items by which the capacity of a composition is measured before a recording."""
HELD = 300
"""Items that are held in memory; a longer stream goes round in them."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One recorded run. ``load`` is relative to the capacity of the first composition on this machine."""

    name: str
    app: str
    composition: str
    """In the one-line notation."""
    shape: Load
    load: float
    bound_s: float
    """An item is in time if it is delivered within so long after it was due."""
    options: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, str] = field(default_factory=dict)
    """Paths below $RECOMPOSE_DATA by option; "" is the path of the items."""
    waits: tuple[str, ...] = ()
    """Stages that wait by nature: their wall time beyond the CPU time is waiting. That of others was lost to others."""
    events: tuple[tuple[float, str], ...] = ()
    """Time and new composition, or KILL."""
    seconds: float = 45.0


_LOGNORMAL = {"distribution": "lognormal", "cv": 0.5}
_WAITING = {"compute": "wait", "total_ms": 60, **_LOGNORMAL}
_BSDS = {"images": "ferret/bsds500/test"}
_CLIP = {"": "person/short_hamilton_clip.mp4"}
_ROAD = {"": "lane/solidWhiteRight.mp4"}

SCENARIOS = (
    Scenario("synthetic merged", "synthetic", "Par*2(f1,f2,f3)", "poisson", 0.7, 0.1, _LOGNORMAL),
    Scenario("synthetic apart", "synthetic", "Seq(f1)-Seq(f2)-Seq(f3)", "even", 0.6, 0.06, _LOGNORMAL),
    Scenario(
        "synthetic replicated", "synthetic", "Seq(f1)-Par*2(f2)-Seq(f3)", "bursts", 0.6, 0.5,
        {"weights": "1:3:2", **_LOGNORMAL},
    ),
    Scenario(
        "synthetic switch", "synthetic", "Seq(f1)-Seq(f2)-Seq(f3)", "poisson", 0.6, 0.1, _LOGNORMAL,
        events=((15.0, "Par*2(f1,f2,f3)"), (30.0, "Par*2(f1,f2)-Seq(f3)")),
    ),
    Scenario(
        "synthetic resize", "synthetic", "Par*1(f1,f2,f3)", "waves", 0.8, 0.5, _LOGNORMAL,
        events=((15.0, "Par*3(f1,f2,f3)"), (30.0, "Par*1(f1,f2,f3)")),
    ),
    Scenario("synthetic kill", "synthetic", "Par*2(f1,f2,f3)", "poisson", 0.6, 0.2, _LOGNORMAL, events=((20.0, KILL),)),
    Scenario(
        "waiting merged", "synthetic", "Par*4(f1,f2,f3)", "poisson", 0.8, 0.15, _WAITING, waits=("f1", "f2", "f3")
    ),
    Scenario("ledger", "ledger", "Par*3(check,fetch)-Seq(total)", "bursts", 0.55, 0.6, waits=("fetch",)),
    Scenario("ferret merged", "ferret", "Par*2(f1,f2,f3,f4)", "waves", 0.75, 0.1, {"kernel": "fast"}, _BSDS),
    Scenario("ferret grouped", "ferret", "Seq(f1,f2)-Par*2(f3,f4)", "poisson", 0.6, 0.05, {"kernel": "fast"}, _BSDS),
    Scenario(
        "person kill", "person_recognition", "Par*2(f1,f2)-Seq(f3)", "even", 0.5, 0.4, {"denoise": "fast"}, _CLIP,
        events=((15.0, KILL),),
    ),
    Scenario("lane grouped", "lane_detection", "Seq(f1,f2)-Par*2(f3)-Seq(f4,f5,f6,f7)", "poisson", 0.7, 0.1, {}, _ROAD),
    Scenario("bzip2 overload", "bzip2", "Par*2(compress)", "even", 1.1, 2.0, {"block_bytes": 250_000}, {"": "text"}),
)  # fmt: skip


class Prepared:
    """An app that is ready to be run, with its items."""

    def __init__(self, scenario: Scenario) -> None:
        """Raises: RecomposeError when the scenario needs data and $RECOMPOSE_DATA is not set."""
        if scenario.data and DATA not in os.environ:
            raise RecomposeError(f"{DATA} is not set; scenario {scenario.name!r} needs the folder of test data")
        paths = {option: Path(os.environ[DATA]) / path for option, path in scenario.data.items()}
        path = paths.pop("", None)
        options = {**scenario.options, **paths}
        self.make_app = Ledger if scenario.app == Ledger.name else partial(create, scenario.app, options)
        self.app: App = self.make_app()
        self.app.prepare()
        self._held = list(islice(self.app.items(path), HELD))

    def items(self) -> Iterator[Any]:
        return cycle(self._held)

    def capacity_per_s(self, composition: Composition, waits: Collection[str]) -> float:
        """Return the items per second that the composition can do here: the least of its groups and of the cores.
        Stages that do not wait count with their CPU time, as if nobody else used the machine."""
        self.app.setup()
        states: dict[str, Any] = {}
        names = tuple(stage.name for stage in self.app.stages)
        busy_s, cpu_s = dict.fromkeys(names, 0.0), 0.0
        for item in islice(self.items(), SAMPLES):
            done = run_stages(self.app, names, [item], states)
            states = done.states
            for stage, took_s, computed_s in done.timings:
                cpu_s += computed_s / SAMPLES
                busy_s[stage] += (took_s if stage in waits else computed_s) / SAMPLES
        groups = [group.replicas / sum(busy_s[stage] for stage in group.stages) for group in composition.groups]
        return min(*groups, cores() / cpu_s) if cpu_s else min(groups)


def due_times(scenario: Scenario, rate_per_s: float) -> Floats:
    """Return when each item is due, drawn by the scenario's name: the same times for the same rate."""
    random = np.random.default_rng(zlib.crc32(scenario.name.encode()))
    grid = np.linspace(0.0, scenario.seconds, 20_001)
    factors = _factors(scenario.shape, grid)
    expected = np.concatenate(([0.0], np.cumsum((factors[1:] + factors[:-1]) / 2 * np.diff(grid)))) * rate_per_s
    most = int(2 * expected[-1]) + 100
    gaps = np.ones(most) if scenario.shape == "even" else random.exponential(1.0, most)
    at = np.cumsum(gaps)
    due_s: Floats = np.interp(at[at < expected[-1]], expected, grid)
    return due_s


def _factors(shape: Load, at_s: Floats) -> Floats:
    """Return the rate over its mean at each time."""
    if shape == "waves":
        return 1 + WAVE_SWING * np.sin(2 * np.pi * at_s / WAVE_S)
    if shape == "bursts":
        part = BURST_S / BURST_EVERY_S
        quiet = (1 - BURST_FACTOR * part) / (1 - part)
        return np.asarray(np.where(at_s % BURST_EVERY_S < BURST_S, BURST_FACTOR, quiet), dtype=np.float64)
    return np.ones_like(at_s)
