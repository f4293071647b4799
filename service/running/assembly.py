"""Builds what a run consists of from a spec that was checked."""

from __future__ import annotations

from time import monotonic

from apps.input.source_thread import SourceLimits, SourceThread
from service.running.checked import CheckedSpec
from service.running.control_loop import loop_of
from service.running.intake import Intake
from service.running.pools import POOLS
from service.running.run import Run
from service.running.sink import ResultSink


def assemble(checked: CheckedSpec) -> Run:
    """Starts nothing but what the app's ``prepare`` does, which may take long."""
    checked.app.prepare()
    spec = checked.spec
    names = [stage.name for stage in checked.stages]
    pool, codec = POOLS[spec.pool](checked.make_app, names, checked.settings.pool)
    sink = ResultSink(checked.app, codec.decode, spec.out_path, spec.dead_letters_path, checked.link)
    loop = loop_of(checked, pool, codec.size_bytes, sink.take)
    source = SourceThread(
        checked.source,
        checked.rate,
        clock=monotonic,
        wake=pool.wake,
        encode=codec.encode,
        limits=SourceLimits(items=spec.items),
    )
    intake = Intake(source, loop.engine, loop.monitor, checked.first.workers, lambda: checked.pushes.waiting)
    return Run(checked, intake, sink, loop, pool.wake, checked.compositions)
