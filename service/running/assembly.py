"""Builds what a run consists of from a spec that was checked."""

from __future__ import annotations

from time import monotonic

from apps.input.source_thread import SourceLimits, SourceThread
from control.decisions import Mode
from control.manager import Manager
from profiler.monitor import Monitor
from runtime.dispatch.dispatcher import Dispatcher
from runtime.dispatch.events import SwitchStyle
from runtime.dispatch.settings import DispatcherSettings
from runtime.engine import Engine
from service.running.checked import CheckedSpec
from service.running.intake import Intake
from service.running.loop import ControlLoop, LoopSettings
from service.running.pools import POOLS
from service.running.run import Run
from service.running.shipped import available_cores
from service.running.sink import ResultSink


def assemble(checked: CheckedSpec) -> Run:
    """Starts nothing but what the app's ``prepare`` does, which may take long."""
    checked.app.prepare()
    spec, names = checked.spec, [stage.name for stage in checked.stages]
    pool, codec = POOLS[spec.pool](checked.make_app, names, checked.settings.pool)
    sink = ResultSink(checked.app, codec.decode, spec.out_path, spec.dead_letters_path, checked.link)
    source = SourceThread(
        checked.source,
        checked.rate,
        clock=monotonic,
        wake=pool.wake,
        encode=codec.encode,
        limits=SourceLimits(items=spec.items),
    )
    settings = DispatcherSettings(overload=spec.overload)
    engine = Engine(Dispatcher(checked.stages, checked.first, settings, codec.size_bytes), pool)
    cores = available_cores()
    monitor = Monitor(checked.settings.monitor, names, cores)
    how = LoopSettings(cores, SwitchStyle(spec.switch_style))
    loop = ControlLoop(engine, monitor, _manager(checked), how, sink.take)
    intake = Intake(source, engine, monitor, checked.first.workers)
    return Run(checked, intake, sink, loop, pool.wake, checked.compositions)


def _manager(checked: CheckedSpec) -> Manager:
    spec = checked.spec
    manager = Manager(
        checked.settings.manager,
        checked.strategy,
        checked.stages,
        checked.compositions,
        spec.mode,
        spec.slo,
        first=checked.first,
    )
    if spec.mode is Mode.PINNED:
        manager.set_mode(spec.mode, spec.composition)
    return manager
