"""Build the parts of a run from a validated spec: pool, manager, loop, source and outputs."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from time import monotonic
from typing import Any, NamedTuple

from apps.keys import Partitions
from compositions.model import Room, Stage, StageKind, concurrencies
from control.choices import Choices
from control.decisions import Mode
from control.manager import Manager
from datapipe.sink_kinds import KINDS, Opening
from datapipe.sources.source_thread import SourceLimits, SourceThread
from profiler.monitor import Monitor
from profiler.snapshot import LatencyFrom
from runtime.dispatch.checkpoint import BEGINNING, Checkpoint
from runtime.dispatch.dispatcher import Dispatcher
from runtime.dispatch.keys import KeyStates, Payload
from runtime.dispatch.outcomes import Delivered, Shed
from runtime.engine import Engine
from runtime.housekeeping import available_cores
from runtime.pools.keyed import routing
from runtime.pools.local import LocalPool, PickleCodec
from runtime.pools.port import Codec, WorkerPool
from service.runner.bundling import Bundling
from service.runner.loop import Bundler, ControlLoop, LoopSettings, Sink
from service.runner.validation.checked import CheckedSpec
from service.runner.validation.resolution import Table
from service.runner.wiring.checkpointer import CHECKPOINTERS, Checkpointer
from service.runner.wiring.result_buffer import ResultBatch
from service.runner.wiring.run import Intake, Run
from service.runner.wiring.sink import ResultSink, SinkWriter

Wake = Callable[[], None]


def assemble(checked: CheckedSpec, results: Table | None = None) -> Run:
    """Assemble the run; only ``prepare`` and a sink's thread start. ``results``: a program's own destination."""
    checked.app.prepare()
    spec, opened = checked.spec, open_pool(checked)
    pool, codec = opened.pool, opened.codec
    begin = begin_of(checked, codec)
    sink_writer = sink_writer_of(checked, begin.next_serial, pool.wake)
    table = sink_writer or checked.link or results
    in_program = table is not None and table is results
    ending = spec.ending
    sink = ResultSink(checked.app, codec.decode, ending.out_path, ending.dead_letters_path, table, in_program)
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
        together = [stage.name for stage in checked.app.stages if stage.batch]
        bundling = Bundling(source, spec.batching.batching, checked.first, together)
        checkpointer = checkpointer_of(checked, codec, sink, begin, sink_writer, pool.wake)
        loop = loop_of(checked, opened, way_out(checkpointer, sink), bundling, begin)

        def workers() -> int:  # a run that continues is late already, so it begins first
            fewer = loop.failures.start_failure is not None and not loop.engine.view().unserved
            return 1 if begin.next_serial or fewer else checked.first.workers

        intake = Intake(source, loop.engine, loop.monitor, bundling, workers, lambda: checked.pushes.waiting)
        intake.admitted, checkpointer.seen = checkpointer.admitted, loop.seen
        undoing.pop_all()
        own = checked.compositions, checked.spec.announced
        return Run(checked, intake, bundling, sink, loop, checkpointer, sink_writer, pool.wake, *own)


def _limits(checked: CheckedSpec, done: int) -> SourceLimits:
    """Return limits of the source. ``done``: number of items that an earlier runner delivered."""
    items = None if checked.spec.ending.items is None else max(0, checked.spec.ending.items - done)
    if checked.latency_from is LatencyFrom.READ:  # SPBench's frequency pattern makes up for no lost time either
        return SourceLimits(items=items)
    return SourceLimits(items=items, catch_up_s=checked.settings.input.catch_up_s)


class OpenPool(NamedTuple):
    """A pool, its codec, and the present resources of its workers: cores, room for each class, busy GPUs."""

    pool: WorkerPool
    codec: Codec
    cores: Callable[[], float]
    room: Callable[[], Room] = dict
    gpus_busy: Callable[[], float | None] = lambda: None


def open_pool(checked: CheckedSpec) -> OpenPool:
    if checked.spec.pool == "local":
        return OpenPool(LocalPool(checked.make_app), PickleCodec(), available_cores)
    from runtime.pools.ray.pool import RayPool  # imported here: a local run does not need Ray

    settings = replace(checked.settings.pool, stages=checked.stages)
    pool = RayPool(checked.make_app, [stage.name for stage in checked.stages], settings)
    return OpenPool(pool, pool.codec, pool.cores, pool.room, pool.gpus_busy)


def manager_of(checked: CheckedSpec) -> Manager:
    """Build the manager, with the requested mode and objective."""
    spec, generated = checked.spec, not checked.listed
    choices = Choices(checked.stages, checked.compositions, checked.first, generated=generated)
    manager = Manager(checked.manager_settings, checked.strategy, choices, spec.mode, spec.slo)
    if spec.mode is Mode.PINNED:
        manager.set_mode(spec.mode, spec.composition)
    return manager


def loop_of(checked: CheckedSpec, opened: OpenPool, sink: Sink, bundler: Bundler, begin: Checkpoint) -> ControlLoop:
    """Build the loop on a pool; outcomes go to ``sink``. ``begin``: progress of an earlier runner."""
    spec, cores = checked.spec, opened.cores()
    settings = replace(checked.settings.dispatcher, overload=spec.overload)
    begun = None if checked.stored is None else begin
    dispatcher = Dispatcher(checked.stages, checked.first, settings, opened.codec.size_bytes, begin=begun)
    engine, stages = Engine(dispatcher, opened.pool), [stage.name for stage in checked.stages]
    monitor = Monitor(checked.settings.monitor, stages, cores, concurrencies(checked.stages))
    seen_at_once = spec.durable.durability != "exactly-once"
    made = checked.settings.drain.made
    how = LoopSettings(opened.cores, checked.style, made, opened.room, opened.gpus_busy, seen_at_once)
    return ControlLoop(engine, monitor, manager_of(checked), how, sink, bundler)


def begin_of(checked: CheckedSpec, codec: Codec) -> Checkpoint:
    """Return the progress of the earlier runner, with states as payloads of the pool."""
    if checked.stored is None:
        return BEGINNING
    found, stored = checked.stored.found, checked.stored.found.checkpoint.states.items()
    states = {stage: None if state is None else codec.encode([state]) for stage, state in stored}
    partitioned = [stage for stage in checked.stages if stage.kind is StageKind.PARTITIONED]
    keyed = {stage.name: _by_partition(found.keyed.pop(stage.name, {}), stage) for stage in partitioned}
    return replace(found.checkpoint, states=states, keyed=keyed)


def _by_partition(states: KeyStates, stage: Stage) -> dict[int, KeyStates]:
    found: dict[int, dict[Any, Payload | None]] = {}
    for key, partition in zip(states, Partitions(stage.partitions, stage.bounds).of(list(states)), strict=True):
        found.setdefault(partition, {})[key] = states[key]
    return dict(found)


def sink_writer_of(checked: CheckedSpec, next_serial: int, wake: Wake) -> SinkWriter | None:
    """Return the writer of the sink; None for none, or Spark's. Raises: RecomposeError if it is invalid."""
    spec = checked.spec
    if spec.sink is None or spec.sink.kind == "spark":
        return None
    assert spec.origin.run is not None, "a runner has given it a name"
    opening = Opening(spec.sink.path, spec.origin.run, spec.origin.epoch, spec.sink.options)
    known = None if checked.stored is None else checked.stored.found.wanted
    return SinkWriter(KINDS[spec.sink.kind].open(opening), next_serial, wake, min(known or 0, next_serial))


def checkpointer_of(
    checked: CheckedSpec, codec: Codec, sink: ResultSink, begin: Checkpoint, sink_writer: SinkWriter | None, wake: Wake
) -> Checkpointer:
    """Return the checkpointer between the sink and the readers of results."""
    if checked.stored is None:
        return Checkpointer(sink.release)
    writer, found = checked.stored, checked.stored.found
    writer.wake = wake
    sink.begin(begin.next_serial, [ResultBatch(*left) for left in found.left])
    until = None if sink_writer is None else lambda: sink_writer.until
    make = CHECKPOINTERS[checked.spec.durable.durability]
    checkpointer = make(sink.release, writer, checked.source, lambda payload: codec.decode(payload)[0], found, until)
    sink.way = checkpointer.take
    return checkpointer


def way_out(checkpointer: Checkpointer, sink: ResultSink) -> Callable[[Delivered | Shed], None]:
    """Return the function that receives outputs of the dispatcher."""

    def take(out: Delivered | Shed) -> None:
        checkpointer.left(out)
        sink.take(out)

    return take
