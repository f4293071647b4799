"""The scenario of a simulated run: stage costs, arrivals of the items, and events such as a lost worker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from apps.rates import Fixed, Rate
from compositions.batching import Batching
from compositions.model import Composition, Stage, all_sequential
from control.decisions import Mode
from control.settings import Settings
from lab.simulation.machine import Machine
from lab.simulation.pilot import Pilot
from lab.simulation.source import Arrivals
from profiler.slo import Slo
from profiler.snapshot import Announcement, LatencyFrom
from runtime.dispatch.settings import DispatcherSettings
from service.runner.loop import TICK_S


@dataclass(frozen=True, slots=True)
class SimulatedStage:
    """The cost of a stage. ``factors`` multiply its service time, each from a time on (s); linear in between."""

    name: str
    service_s: float
    cv: float = 0.0
    wait_share: float = 0.0
    """Share of the service time spent waiting for something other than a core."""
    factors: tuple[tuple[float, float], ...] = ()
    load_s: float = 0.0
    """Time to load the stage; 0: nothing is loaded. Only workers of its group load it."""


@dataclass(frozen=True, slots=True)
class Happening:
    """An event in the running app at a given time."""

    at_s: float
    action: Literal["lose_worker", "slo", "compositions", "pin", "auto", "observe", "batch", "announce", "cores"]
    slo: Slo | None = None
    compositions: tuple[Composition, ...] = ()
    name: str | None = None
    announcement: Announcement | None = None
    batching: Batching = field(default_factory=Batching)
    cores: int = 0
    """Number of cores left to the workers from then on; other programs use the rest, without notice."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """All inputs of a simulated run; the same scenario gives the same trace."""

    stages: tuple[SimulatedStage, ...]
    compositions: tuple[Composition, ...]
    slo: Slo | None = None
    rate: Rate = field(default_factory=lambda: Fixed(10.0))
    duration_s: float = 60.0
    machine: Machine = field(default_factory=Machine)
    strategy: str = "expected-cost"
    mode: Mode = Mode.AUTO
    settings: Settings = field(default_factory=Settings)
    dispatcher: DispatcherSettings = field(default_factory=DispatcherSettings)
    first: Composition | None = None
    """``None``: all stages sequential."""
    arrivals: Literal["paced", "poisson"] = "paced"
    batching: Batching = field(default_factory=lambda: Batching(items=1))
    """Bundle size, by count or age, because simulated items weigh nothing."""
    happenings: tuple[Happening, ...] = ()
    seed: int = 0
    until_settled_s: float | None = None
    """End early after this time without any decision but "no change"."""
    items: int | None = None
    """End early after this number of delivered items."""
    pilot: Callable[[], Pilot] | None = None
    """Function that creates the pilot, which decides instead of the strategy, for each run."""
    tick_s: float = TICK_S
    """Time between two turns of the manager; turns take most of the time of a run."""

    @property
    def app_stages(self) -> tuple[Stage, ...]:
        return tuple(Stage(each.name, setup="per-group" if each.load_s else "all") for each in self.stages)

    @property
    def opening(self) -> Composition:
        """Return the first composition: unless one is set, all stages sequential, by its name in the list if listed."""
        if self.first is not None:
            return self.first
        plain = all_sequential(self.app_stages)
        return next((each for each in self.compositions if each.shape == plain.shape), plain)

    @property
    def stream(self) -> Arrivals:
        return Arrivals(self.rate, self.arrivals == "paced", self.seed + 1)

    @property
    def from_due(self) -> bool:
        """True if latency is judged from when items were due, not from when they were read."""
        return self.settings.measuring.latency_from is LatencyFrom.DUE


def steps(values: Sequence[tuple[float, float]]) -> Rate:
    """Return a rate that jumps: (from time s, items/s), times rising from 0."""

    def rate(at_s: float) -> float:
        return next((per_s for from_s, per_s in reversed(values) if from_s <= at_s), values[0][1])

    return rate
