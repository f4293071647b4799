"""A whole run in virtual time: the real dispatcher, monitor, manager and loop on simulated workers.

A scenario says what the stages cost, how items arrive and what goes wrong; the trace says what came of it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from apps.input.rates import Fixed, Rate
from compositions.model import Composition, Stage, all_sequential
from control.choices import Choices
from control.decisions import Decision, Mode, NoChange, State
from control.journal import Journal
from control.manager import Manager
from control.settings import Settings
from control.strategies import make_strategy
from profiler.monitor import Monitor, MonitorSettings
from profiler.slo import Slo, SloStatus
from profiler.snapshot import LatencyFrom
from runtime.dispatch.dispatcher import Dispatcher
from runtime.dispatch.events import SwitchStyle
from runtime.dispatch.outcomes import Delivered, Shed
from runtime.dispatch.settings import DispatcherSettings
from runtime.engine import Engine
from runtime.pools.simulated import SimulatedPool
from runtime.pools.simulated_machine import Cost, CostFunction, Machine
from service.running.loop import ControlLoop, LoopSettings
from service.running.simulated_source import Arrivals

_DRAWS = 4096
"""Service-time factors drawn for each stage; serial numbers go round in them."""


@dataclass(frozen=True, slots=True)
class SimulatedStage:
    """What a stage costs. ``factors``: from a time on (s), its service time is multiplied; linear in between."""

    name: str
    service_s: float
    cv: float = 0.0
    wait_share: float = 0.0
    """Share of the service time spent waiting for something other than a core."""
    factors: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Happening:
    """Something done to the running app at a time."""

    at_s: float
    action: Literal["lose_worker", "slo", "compositions", "pin", "auto", "observe"]
    slo: Slo | None = None
    compositions: tuple[Composition, ...] = ()
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Scenario:
    """Everything a simulated run depends on; the same scenario gives the same trace."""

    stages: tuple[SimulatedStage, ...]
    compositions: tuple[Composition, ...]
    slo: Slo | None = None
    rate: Rate = field(default_factory=lambda: Fixed(10.0))
    duration_s: float = 60.0
    machine: Machine = field(default_factory=Machine)
    strategy: str = "model"
    mode: Mode = Mode.AUTO
    settings: Settings = field(default_factory=Settings)
    first: Composition | None = None
    """``None``: all stages sequential."""
    arrivals: Literal["paced", "poisson"] = "paced"
    buffer_items: int = 32
    style: SwitchStyle = SwitchStyle.SEAMLESS
    happenings: tuple[Happening, ...] = ()
    seed: int = 0
    until_settled_s: float | None = None
    """End early once nothing but "no change" was said for so long."""

    @property
    def stream(self) -> Arrivals:
        return Arrivals(self.rate, self.arrivals == "paced", self.seed + 1)

    @property
    def from_due(self) -> bool:
        """Judged by what was due, not by what was read."""
        return self.settings.measuring.latency_from is LatencyFrom.DUE


@dataclass(frozen=True, slots=True)
class Moment:
    """One tick of the manager."""

    at_s: float
    state: State
    composition: str
    workers: int
    slo_status: SloStatus
    meets: bool
    input_rate_per_s: float | None
    throughput_per_s: float | None
    latency_s: float | None
    said: Decision | NoChange


@dataclass(slots=True)
class Trace:
    """What happened: every tick, every decision and switch, and the fate of every item."""

    journal: Journal
    moments: list[Moment] = field(default_factory=list)
    delivered: list[Delivered] = field(default_factory=list)
    """In the order of delivery."""
    accepted: int = 0

    @property
    def decisions(self) -> list[Decision]:
        return list(self.journal.decisions)

    @property
    def final(self) -> Moment:
        return self.moments[-1]

    @property
    def in_order(self) -> bool:
        """Every delivered item once, none left out, in the order of arrival."""
        return [item.serial for item in self.delivered] == list(range(len(self.delivered)))

    def between(self, start_s: float, end_s: float) -> list[Moment]:
        return [moment for moment in self.moments if start_s <= moment.at_s < end_s]

    def switches_between(self, start_s: float, end_s: float) -> int:
        """Switches that ended without an error."""
        ended = [record.ended for record in self.journal.switches]
        return sum(e is not None and e.error is None and start_s <= e.at_s < end_s for e in ended)

    def met_share(self, start_s: float, end_s: float) -> float:
        """Share of the ticks with a known answer at which the SLO was met."""
        known = [m.slo_status for m in self.between(start_s, end_s) if m.slo_status is not SloStatus.UNKNOWN]
        return sum(status is SloStatus.MET for status in known) / len(known) if known else 0.0


def simulate(scenario: Scenario) -> Trace:
    """Runs ``scenario`` to its end."""
    return _Run(scenario).run()


class _Run:
    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        stages = tuple(Stage(stage.name) for stage in scenario.stages)
        first = scenario.first or _sequential(stages, scenario.compositions)
        self.pool = SimulatedPool(costs_of(scenario.stages, scenario.seed, self.now_s), scenario.machine)
        dispatcher = Dispatcher(stages, first, DispatcherSettings(buffer_items=scenario.buffer_items))
        self.engine = Engine(dispatcher, self.pool)
        strategy = make_strategy(scenario.strategy)
        self.manager = Manager(
            scenario.settings, strategy, Choices(stages, scenario.compositions, first), scenario.mode, scenario.slo
        )
        monitor = Monitor(MonitorSettings(), [stage.name for stage in stages], scenario.machine.cores)
        settings = LoopSettings(scenario.machine.cores, scenario.style)
        self.loop = ControlLoop(self.engine, monitor, self.manager, settings, self.take)
        self.trace = Trace(self.loop.journal)
        self.source = scenario.stream.source(self.engine, monitor, from_due=scenario.from_due)
        self.happenings = deque(sorted(scenario.happenings, key=lambda happening: happening.at_s))
        self.quiet_since_s = 0.0

    def now_s(self) -> float:
        return self.pool.now_s()

    def run(self) -> Trace:
        self.engine.start()
        while self.engine.now_s < self.scenario.duration_s and not self._settled():
            self._happen()
            due_s = self.source.feed()
            self.loop.step(min(due_s, self.scenario.duration_s))
            self._note()
        self.trace.accepted = self.engine.view().accepted
        return self.trace

    def take(self, item: Delivered | Shed) -> None:
        if isinstance(item, Delivered):
            self.trace.delivered.append(item)

    def _settled(self) -> bool:
        limit_s = self.scenario.until_settled_s
        return limit_s is not None and self.engine.now_s - self.quiet_since_s > limit_s

    def _note(self) -> None:
        result, snapshot, moments = self.loop.result, self.loop.snapshot, self.trace.moments
        if result is None or snapshot is None or (moments and moments[-1].at_s == snapshot.now_s):
            return
        if isinstance(result.decision, Decision) or result.state is not State.STABLE:
            self.quiet_since_s = snapshot.now_s
        slo, latency = self.manager.slo, snapshot.latency
        composition = self.engine.view().composition
        moment = Moment(
            at_s=snapshot.now_s,
            state=result.state,
            composition=composition.name,
            workers=composition.workers,
            slo_status=result.slo_status,
            meets=result.slo_status is SloStatus.MET,
            input_rate_per_s=snapshot.input_rate_per_s,
            throughput_per_s=snapshot.throughput_per_s,
            latency_s=latency.statistic(slo.statistic if slo else "mean") if latency else None,
            said=result.decision,
        )
        moments.append(moment)

    def _happen(self) -> None:
        while self.happenings and self.happenings[0].at_s <= self.engine.now_s:
            self._do(self.happenings.popleft())

    def _do(self, happening: Happening) -> None:
        match happening.action:
            case "lose_worker":
                self.pool.lose(self.engine.view().workers[0].worker)
            case "slo":
                self.manager.set_slo(happening.slo)
            case "compositions":
                self.manager.set_compositions(happening.compositions)
            case "pin":
                self.manager.set_mode(Mode.PINNED, happening.name)
            case "auto" | "observe":
                self.manager.set_mode(Mode(happening.action))


def costs_of(stages: Sequence[SimulatedStage], seed: int, now_s: Callable[[], float]) -> CostFunction:
    """Lognormal service times with the mean and cv of each stage, the same for an item in every composition."""
    draws = {stage.name: _factors(stage, np.random.default_rng((seed, index))) for index, stage in enumerate(stages)}
    by_name = {stage.name: stage for stage in stages}

    def cost(name: str, serial: int) -> Cost:
        stage = by_name[name]
        service_s = stage.service_s * draws[name][serial % _DRAWS] * _drift(stage.factors, now_s())
        return Cost(service_s * (1 - stage.wait_share), service_s * stage.wait_share)

    return cost


def _factors(stage: SimulatedStage, random: np.random.Generator) -> list[float]:
    if not stage.cv:
        return [1.0] * _DRAWS
    variance = math.log(1 + stage.cv**2)
    drawn = random.lognormal(-variance / 2, math.sqrt(variance), _DRAWS)
    return [float(value) for value in drawn / drawn.mean()]


def _drift(factors: tuple[tuple[float, float], ...], at_s: float) -> float:
    if not factors:
        return 1.0
    return float(np.interp(at_s, [t for t, _ in factors], [factor for _, factor in factors]))


def _sequential(stages: Sequence[Stage], compositions: Sequence[Composition]) -> Composition:
    """All stages sequential, under the name it has among ``compositions`` if it is there."""
    plain = all_sequential(stages)
    return next((c for c in compositions if c.shape == plain.shape), plain)


def steps(values: Sequence[tuple[float, float]]) -> Rate:
    """A rate that jumps: (from time s, items/s), times rising from 0."""

    def rate(at_s: float) -> float:
        return next((per_s for from_s, per_s in reversed(values) if from_s <= at_s), values[0][1])

    return rate
