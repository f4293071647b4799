"""Builds what a run consists of from its spec, and checks the spec on the way."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic

from apps import registry
from apps.contract import App
from apps.input.rates import Rate, from_spec
from apps.input.source_thread import SourceLimits, SourceThread
from apps.input.sources import Source, open_source
from compositions.capacity.costs import Conditions
from compositions.capacity.predict import predict
from compositions.capacity.prediction import Prediction
from compositions.errors import RecomposeError
from compositions.model import Composition, all_sequential
from compositions.settings import overridden
from control.decisions import Mode
from control.manager import Manager
from control.strategies import make_strategy
from profiler.monitor import Monitor
from profiler.service_time import stage_costs
from profiler.snapshot import Demand
from runtime.dispatch.dispatcher import Dispatcher
from runtime.dispatch.events import SwitchStyle
from runtime.dispatch.settings import DispatcherSettings
from runtime.engine import Engine
from runtime.pools.local import LocalPool, PickleCodec
from runtime.pools.port import Codec, WorkerPool
from service.bodies.compositions import Choice
from service.bodies.spec import InputSpec, RunSpec
from service.running.loop import ControlLoop, LoopSettings
from service.running.settings import RunSettings
from service.running.shipped import available_cores, choices_for
from service.running.sink import ResultSink
from service.running.spark import open_link

DEMAND_EVERY_S = 0.1
"""What was asked for of the source is counted this often."""


class Assembly:
    """The checked spec. Raises: RecomposeError for whatever in it cannot run, before anything starts."""

    def __init__(self, spec: RunSpec) -> None:
        dirs = [Path(directory) for directory in spec.apps_dirs]
        self.spec = spec
        self.make_app = partial(registry.create, spec.app, dict(spec.options), dirs)
        self.app: App = self.make_app()
        self.stages = tuple(self.app.stages)
        self.settings = overridden(RunSettings(), spec.settings)
        self.strategy = make_strategy(spec.strategy)
        self.compositions = spec.compositions or choices_for(self.app)
        self.first = self._first()
        self.initial_rate = self.rate(spec.input)
        self.link = open_link(spec, self.app)
        self.source = self._source()

    def rate(self, spec: InputSpec) -> Rate | None:
        return from_spec(**spec.model_dump())

    def _source(self) -> Source:
        spec = self.spec.source
        if spec.kind == "spark" and self.link is not None:
            return self.link
        return open_source(self.app, spec.kind, spec.path, clock=monotonic, loop=spec.loop)

    def _first(self) -> Composition:
        """The named one; else the one that runs every stage by itself, for the most accurate profile."""
        name, sequential = self.spec.composition, all_sequential(self.stages)
        for composition in self.compositions:
            if composition.name == name or (name is None and composition.shape == sequential.shape):
                return composition
        if name is None:
            return sequential
        known = ", ".join(composition.name for composition in self.compositions)
        raise RecomposeError(f"unknown composition {name!r}; {self.spec.app} has {known}")

    def build(self) -> Parts:
        """Starts nothing but what the app's ``prepare`` does, which may take long."""
        self.app.prepare()
        pool, codec = self._pool()
        sink = ResultSink(self.app, codec.decode, self.spec.out_path, self.spec.dead_letters_path, self.link)
        source = SourceThread(
            self.source,
            self.initial_rate,
            clock=monotonic,
            wake=pool.wake,
            encode=codec.encode,
            limits=SourceLimits(items=self.spec.items),
        )
        settings = DispatcherSettings(overload=self.spec.overload)
        dispatcher = Dispatcher(self.stages, self.first, settings, codec.size_bytes)
        loop = ControlLoop(Engine(dispatcher, pool), self._monitor(), self._manager(), self._loop_settings(), sink.take)
        return Parts(self, pool, source, sink, loop, self.first)

    def close(self) -> None:
        self.source.close()

    def _pool(self) -> tuple[WorkerPool, Codec]:
        if self.spec.pool == "local":
            return LocalPool(self.make_app), PickleCodec()
        from runtime.pools.ray_pool import RayPool  # imported here: a local run needs no Ray
        from runtime.transport.wire import FrameCodec

        return RayPool(self.make_app, [stage.name for stage in self.stages]), FrameCodec()

    def _monitor(self) -> Monitor:
        return Monitor(self.settings.monitor, [stage.name for stage in self.stages], available_cores())

    def _loop_settings(self) -> LoopSettings:
        return LoopSettings(available_cores(), SwitchStyle(self.spec.switch_style))

    def _manager(self) -> Manager:
        spec = self.spec
        manager = Manager(
            self.settings.manager,
            self.strategy,
            self.stages,
            self.compositions,
            spec.mode,
            spec.slo,
            first=self.first,
        )
        if spec.mode is Mode.PINNED:
            manager.set_mode(spec.mode, spec.composition)
        return manager


@dataclass(slots=True)
class Parts:
    """What runs; owned by the loop's thread."""

    assembly: Assembly
    pool: WorkerPool
    source: SourceThread
    sink: ResultSink
    loop: ControlLoop
    first: Composition

    reading: bool = False
    counted_s: float = -math.inf
    """When the demand was last looked at."""

    def feed(self) -> None:
        """Moves what the source has handed over into the dispatcher, as far as it has room.

        Reading begins when the workers are there: what was read before would have waited for them, and the first
        latencies would tell of the start and not of the composition.
        """
        engine, monitor = self.loop.engine, self.loop.monitor
        if not self.reading:
            self.reading = len(engine.view().workers) >= self.first.workers
            if not self.reading:
                return
            self.source.start()
        monitor.set_offered_rate(engine.now_s, self.source.offered_per_s(engine.now_s))
        self._count_demand(engine.now_s)
        while engine.has_room and self.sink.has_room and (taken := self.source.take(1)):
            monitor.record_arrival(taken[0].arrived_s)
            engine.admit(taken[0].value, taken[0].arrived_s, taken[0].due_s)

    def _count_demand(self, now_s: float) -> None:
        """Often enough for the manager, which looks four times a second."""
        if now_s - self.counted_s < DEMAND_EVERY_S:
            return
        self.counted_s, offer = now_s, self.source.offer()
        demand = Demand(offer.slots, self.loop.engine.view().accepted, offer.missed, offer.lag_s)
        self.loop.monitor.record_demand(now_s, demand)

    def close(self) -> None:
        self.source.stop(drain=False)
        self.loop.engine.close()
        self.sink.close()

    def replace_compositions(self, compositions: tuple[Composition, ...]) -> None:
        self.assembly.compositions = compositions
        self.loop.manager.set_compositions(compositions)

    def choices(self) -> list[Choice]:
        """Every composition with its prediction, where there is a profile."""
        app, active = self.assembly.spec.app, self.loop.engine.view().composition.name
        return [
            Choice.offered(app, each, each.name == active, self._predict(each)) for each in self.assembly.compositions
        ]

    def _predict(self, composition: Composition) -> Prediction | None:
        snapshot = self.loop.snapshot
        if snapshot is None or len(snapshot.stages) < len(self.assembly.stages):
            return None
        costs = stage_costs(snapshot.stages, snapshot.cores)
        rate = snapshot.input_rate_per_s
        return predict(composition, costs, Conditions(snapshot.cores, snapshot.hop_s, rate))
