"""Builds what a run consists of from a spec that was checked."""

from __future__ import annotations

from time import monotonic

from apps.input.source_thread import SourceLimits, SourceThread
from profiler.snapshot import LatencyFrom
from service.running.building.control_loop import loop_of
from service.running.building.intake import Intake
from service.running.building.pools import POOLS
from service.running.building.run import Run
from service.running.building.sink import ResultSink
from service.running.bundling import Bundling
from service.running.checking.checked import CheckedSpec


def assemble(checked: CheckedSpec) -> Run:
    """Starts nothing but what the app's ``prepare`` does, which may take long."""
    checked.app.prepare()
    spec = checked.spec
    names = [stage.name for stage in checked.stages]
    pool, codec = POOLS[spec.pool](checked.make_app, names, checked.settings.pool)
    sink = ResultSink(checked.app, codec.decode, spec.out_path, spec.dead_letters_path, checked.link)
    source = SourceThread(
        checked.source,
        checked.rate,
        clock=monotonic,
        wake=pool.wake,
        encode=codec.encode,
        limits=_limits(checked),
    )
    bundling = Bundling(source, spec.batching.batching, checked.first)
    loop = loop_of(checked, pool, codec.size_bytes, sink.take, bundling)
    intake = Intake(source, loop.engine, loop.monitor, bundling, checked.first.workers, lambda: checked.pushes.waiting)
    return Run(checked, intake, bundling, sink, loop, pool.wake, checked.compositions)


def _limits(checked: CheckedSpec) -> SourceLimits:
    """Judged from the read on, a source makes up for nothing that the frequency of SPBench would not."""
    if checked.latency_from is LatencyFrom.READ:
        return SourceLimits(items=checked.spec.items)
    return SourceLimits(items=checked.spec.items, catch_up_s=checked.settings.input.catch_up_s)
