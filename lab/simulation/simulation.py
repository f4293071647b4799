"""A whole run in virtual time: the real dispatcher, monitor, manager and loop on simulated workers."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from compositions.model import concurrencies
from control.choices import Choices
from control.decisions import Mode
from control.manager import Manager
from control.strategies import make_strategy
from lab.simulation.gathering import SimulatedDoor, SimulatedInlet
from lab.simulation.machine import Cost, CostFunction
from lab.simulation.pilot import Piloted
from lab.simulation.pool import SimulatedPool
from lab.simulation.scenario import Happening, Scenario, SimulatedStage
from lab.simulation.trace import Trace
from profiler.drain_samples import KINDS
from profiler.monitor import Monitor, MonitorSettings
from profiler.snapshot import Announcement
from runtime.dispatch.dispatcher import Dispatcher
from runtime.dispatch.outcomes import Delivered, Shed
from runtime.engine import Engine
from service.runner.bundling import Bundling
from service.runner.loop import Bundler, ControlLoop, LoopSettings, Sink

_DRAWS = 4096
"""Number of service-time factors drawn for each stage; serial numbers use them in a circle."""


def costs_of(stages: Sequence[SimulatedStage], seed: int, now_s: Callable[[], float]) -> CostFunction:
    """Draw lognormal service times with the mean and cv of each stage, the same for an item in every composition."""
    draws = {stage.name: _factors(stage, np.random.default_rng((seed, index))) for index, stage in enumerate(stages)}
    by_name = {stage.name: stage for stage in stages}

    def cost(name: str, serial: int) -> Cost:
        stage = by_name[name]
        service_s = stage.service_s * draws[name][serial % _DRAWS] * drift(stage.factors, now_s())
        return Cost(service_s * (1 - stage.wait_share), service_s * stage.wait_share)

    return cost


def _factors(stage: SimulatedStage, random: np.random.Generator) -> list[float]:
    if not stage.cv:
        return [1.0] * _DRAWS
    variance = math.log(1 + stage.cv**2)
    drawn = random.lognormal(-variance / 2, math.sqrt(variance), _DRAWS)
    return [float(value) for value in drawn / drawn.mean()]


def drift(factors: tuple[tuple[float, float], ...], at_s: float) -> float:
    """Return the factor of a stage's service time at a time."""
    if not factors:
        return 1.0
    return float(np.interp(at_s, [t for t, _ in factors], [factor for _, factor in factors]))


def pool_of(scenario: Scenario) -> SimulatedPool:
    """Return a pool whose workers take the times that the scenario defines."""

    def now_s() -> float:
        return pool.now_s()

    machine = replace(scenario.machine, load_s={stage.name: stage.load_s for stage in scenario.stages})
    pool = SimulatedPool(costs_of(scenario.stages, scenario.seed, now_s), machine)
    return pool


def loop_on(pool: SimulatedPool, scenario: Scenario, sink: Sink, bundler: Bundler | None = None) -> ControlLoop:
    """Return the loop of ``scenario``, whose results go to ``sink``."""
    stages, first, cores = scenario.app_stages, scenario.opening, scenario.machine.cores
    choices = Choices(stages, scenario.compositions, first)
    monitor = Monitor(MonitorSettings(), [stage.name for stage in stages], cores, concurrencies(stages))
    engine = Engine(Dispatcher(stages, first, scenario.dispatcher), pool)
    if scenario.pilot is not None:
        pilot = scenario.pilot()
        steered = Piloted(scenario.settings, choices, scenario.slo, pilot, engine.view)
        loop = ControlLoop(engine, monitor, steered, LoopSettings(lambda: cores), sink, bundler)
        loop.tap = pilot.observe
        return loop
    strategy = make_strategy(scenario.strategy)
    settings = replace(scenario.settings, style=strategy.style)
    manager = Manager(settings, strategy, choices, scenario.mode, scenario.slo)
    drain = KINDS[strategy.drain_sample]()
    how = LoopSettings(lambda: cores, strategy.style, drain, tick_s=scenario.tick_s)
    return ControlLoop(engine, monitor, manager, how, sink, bundler)


def simulate(scenario: Scenario) -> Trace:
    """Run ``scenario`` to its end."""
    run = SimulatedRun(scenario)
    run.advance(scenario.duration_s)
    return run.finish()


class SimulatedRun:
    """A run of a scenario, step by step."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._pool = pool_of(scenario)
        inlet = SimulatedInlet(scenario.rate)
        self._bundling = bundling = Bundling(inlet, scenario.batching, scenario.opening)
        self._loop = loop = loop_on(self._pool, scenario, self._take, bundling)
        self._engine, self._manager = loop.engine, loop.manager
        door = SimulatedDoor(loop.engine, inlet, bundling.admitted, bundling.tell)
        self._source = scenario.stream.source(door, loop.monitor, from_due=scenario.from_due)
        self._happenings = deque(sorted(scenario.happenings, key=lambda happening: happening.at_s))
        self._announced: list[Announcement] = []
        self._trace = Trace(loop.journal, bundling.runs)
        self._engine.start()

    @property
    def loop(self) -> ControlLoop:
        return self._loop

    @property
    def manager(self) -> Manager:
        return self._manager

    @property
    def pool(self) -> SimulatedPool:
        return self._pool

    def advance(self, until_s: float) -> None:
        """Advance to this time, or until the run is over."""
        while self._engine.now_s < until_s and not self._over():
            self._happen()
            due_s = self._source.feed()
            self._loop.step(min(due_s, until_s))
            self._note()

    def finish(self) -> Trace:
        """Return the trace of the run."""
        self._trace.accepted = self._engine.view().accepted
        snapshot = self._loop.snapshot
        self._trace.offered = snapshot.demand.offered if snapshot is not None and snapshot.demand is not None else None
        return self._trace

    def _take(self, item: Delivered | Shed) -> None:
        if isinstance(item, Delivered):
            self._trace.take(item)

    def _over(self) -> bool:
        limit_s, items = self._scenario.until_settled_s, self._scenario.items
        settled = limit_s is not None and self._engine.now_s - self._trace.quiet_since_s > limit_s
        return settled or (items is not None and len(self._trace.delivered) >= items)

    def _note(self) -> None:
        snapshot, result = self._loop.snapshot, self._loop.result
        if snapshot is not None and result is not None and snapshot.now_s > self._trace.noted_s:
            self._trace.note(snapshot, result, self._engine.view().composition, self._manager.slo)

    def _happen(self) -> None:
        while self._happenings and self._happenings[0].at_s <= self._engine.now_s:
            self._do(self._happenings.popleft())

    def _do(self, happening: Happening) -> None:
        match happening.action:
            case "lose_worker":
                self._pool.lose(self._engine.view().workers[0].worker)
            case "slo":
                self._manager.set_slo(happening.slo)
            case "announce" if happening.announcement is not None:
                self._announced.append(happening.announcement)
                self._manager.announce(self._announced)
            case "compositions":
                self._manager.set_compositions(happening.compositions)
            case "pin":
                self._manager.set_mode(Mode.PINNED, happening.name)
            case "cores":
                self._pool.set_cores(happening.cores)
            case "batch":
                self._bundling.set(happening.batching)
            case "auto" | "observe":
                self._manager.set_mode(Mode(happening.action))
