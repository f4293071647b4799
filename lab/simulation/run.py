"""Put a simulated run together: costs of its stages, drawn once, and the parts of a real run with another pool."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from compositions.model import concurrencies
from control.choices import Choices
from control.manager import Manager
from control.strategies import make_strategy
from lab.simulation.machine import Cost, CostFunction
from lab.simulation.pilot import Piloted
from lab.simulation.pool import SimulatedPool
from lab.simulation.scenario import Scenario, SimulatedStage
from profiler.drain_samples import KINDS
from profiler.monitor import Monitor, MonitorSettings
from runtime.dispatch.dispatcher import Dispatcher
from runtime.engine import Engine
from service.runner.loop import Bundler, ControlLoop, LoopSettings, Sink

_DRAWS = 4096
"""Service-time factors drawn for each stage; serial numbers go round in them."""


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
    """Return a pool whose workers take the times of the scenario."""

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
