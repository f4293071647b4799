"""The parts of a simulated run, put together: they are those of a real one but for the pool."""

from __future__ import annotations

from dataclasses import replace

from compositions.model import concurrencies
from control.choices import Choices
from control.manager import Manager
from control.strategies import make_strategy
from profiler.monitor import Monitor, MonitorSettings
from runtime.dispatch.dispatcher import Dispatcher
from runtime.engine import Engine
from runtime.pools.simulated import SimulatedPool
from service.running.loop import Bundler, ControlLoop, LoopSettings, Sink
from service.running.simulated.pilot import Piloted
from service.running.simulated.scenario import Scenario
from service.running.simulated.simulated_costs import costs_of


def pool_of(scenario: Scenario) -> SimulatedPool:
    """With workers that take what the scenario says."""

    def now_s() -> float:
        return pool.now_s()

    pool = SimulatedPool(costs_of(scenario.stages, scenario.seed, now_s), scenario.machine)
    return pool


def loop_on(pool: SimulatedPool, scenario: Scenario, sink: Sink, bundler: Bundler | None = None) -> ControlLoop:
    """The loop of ``scenario``; what comes out goes to ``sink``."""
    stages, first, cores = scenario.app_stages, scenario.opening, scenario.machine.cores
    choices = Choices(stages, scenario.compositions, first)
    monitor = Monitor(MonitorSettings(), [stage.name for stage in stages], cores, concurrencies(stages))
    engine = Engine(Dispatcher(stages, first, scenario.dispatcher), pool)
    if scenario.pilot is not None:
        pilot = scenario.pilot()
        steered = Piloted(scenario.settings, choices, scenario.slo, pilot, engine.view)
        loop = ControlLoop(engine, monitor, steered, LoopSettings(cores), sink, bundler)
        loop.tap = pilot.observe
        return loop
    strategy = make_strategy(scenario.strategy)
    settings = replace(scenario.settings, style=strategy.style)
    manager = Manager(settings, strategy, choices, scenario.mode, scenario.slo)
    return ControlLoop(
        engine, monitor, manager, LoopSettings(cores, strategy.style, tick_s=scenario.tick_s), sink, bundler
    )
