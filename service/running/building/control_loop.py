"""Builds the loop of a run: what dispatches, what measures, what decides."""

from __future__ import annotations

from dataclasses import replace

from compositions.model import concurrencies
from profiler.monitor import Monitor
from runtime.dispatch.checkpoint import Checkpoint
from runtime.dispatch.dispatcher import Dispatcher
from runtime.engine import Engine
from runtime.pools.port import Codec, WorkerPool
from service.running.building.managing import manager_of
from service.running.checking.checked import CheckedSpec
from service.running.checking.shipped import available_cores
from service.running.loop import Bundler, ControlLoop, LoopSettings, Sink


def loop_of(
    checked: CheckedSpec, pool: WorkerPool, codec: Codec, sink: Sink, bundler: Bundler, begin: Checkpoint
) -> ControlLoop:
    """On ``pool``, whose payloads are those of ``codec``; what comes out goes to ``sink``. ``begin``: how far another
    runner had come."""
    spec, cores = checked.spec, available_cores()
    settings = replace(checked.settings.dispatcher, overload=spec.overload)
    begun = None if checked.kept is None else begin
    engine = Engine(Dispatcher(checked.stages, checked.first, settings, codec.size_bytes, begin=begun), pool)
    monitor = Monitor(
        checked.settings.monitor, [stage.name for stage in checked.stages], cores, concurrencies(checked.stages)
    )
    seen_at_once = spec.durability != "exactly-once"
    how = LoopSettings(cores, checked.style, checked.settings.drain.made, seen_at_once)
    return ControlLoop(engine, monitor, manager_of(checked), how, sink, bundler)
