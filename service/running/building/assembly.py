"""Builds what a run consists of from a spec that was checked."""

from __future__ import annotations

from contextlib import ExitStack
from time import monotonic

from apps.input.source_thread import SourceLimits, SourceThread
from profiler.snapshot import LatencyFrom
from runtime.pools.keyed import routing
from service.running.building.control_loop import loop_of
from service.running.building.durability import begin_of, keeper_of, outlet_of, way_out
from service.running.building.intake import Intake
from service.running.building.pools import POOLS
from service.running.building.run import Run
from service.running.building.sink import ResultSink
from service.running.bundling import Bundling
from service.running.checking.checked import CheckedSpec
from service.running.checking.given import Table


def assemble(checked: CheckedSpec, results: Table | None = None) -> Run:
    """Starts nothing but what the app's ``prepare`` does, which may take long, and the thread of a sink. ``results``
    gets them, where a program wants them itself."""
    checked.app.prepare()
    spec = checked.spec
    names = [stage.name for stage in checked.stages]
    pool, codec = POOLS[spec.pool](checked.make_app, names, checked.settings.of_pool(checked.kept is not None))
    begin = begin_of(checked, codec)
    outlet = outlet_of(checked, begin.next_serial, pool.wake)
    table = outlet or checked.link or results
    sink = ResultSink(checked.app, codec.decode, spec.out_path, spec.dead_letters_path, table)
    with ExitStack() as undoing:
        undoing.callback(sink.close)
        source = SourceThread(
            checked.source,
            checked.rate,
            clock=monotonic,
            wake=pool.wake,
            encode=routing(checked.app, codec.encode),
            limits=_limits(checked, begin.next_serial),
        )
        bundling = Bundling(source, spec.batching.batching, checked.first)
        keeper = keeper_of(checked, codec, sink, begin, outlet, pool.wake)
        loop = loop_of(checked, pool, codec, way_out(keeper, sink), bundling, begin)
        workers = 1 if begin.next_serial else checked.first.workers  # what goes on is late already: the first begins
        intake = Intake(source, loop.engine, loop.monitor, bundling, workers, lambda: checked.pushes.waiting)
        intake.admitted, keeper.seen = keeper.admitted, loop.seen
        undoing.pop_all()
        return Run(
            checked,
            intake,
            bundling,
            sink,
            loop,
            keeper,
            outlet,
            pool.wake,
            checked.compositions,
            checked.spec.announced,
        )


def _limits(checked: CheckedSpec, done: int) -> SourceLimits:
    """``done``: items that a runner before this one delivered. Judged from the read on, a source makes up for nothing
    that the frequency of SPBench would not."""
    items = None if checked.spec.items is None else max(0, checked.spec.items - done)
    if checked.latency_from is LatencyFrom.READ:
        return SourceLimits(items=items)
    return SourceLimits(items=items, catch_up_s=checked.settings.input.catch_up_s)
