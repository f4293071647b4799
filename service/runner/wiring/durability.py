"""Resume a run where the previous runner stopped, and store what the next one needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from apps.keys import Partitions
from compositions.model import StageKind
from datapipe.sink_kinds import KINDS, Opening
from runtime.dispatch.checkpoint import BEGINNING, Checkpoint
from runtime.dispatch.keys import KeyStates, Payload
from runtime.dispatch.outcomes import Delivered, Shed
from runtime.pools.port import Codec
from service.runner.validation.checked import CheckedSpec
from service.runner.wiring.checkpointer import CHECKPOINTERS, Checkpointer, CheckpointerParts
from service.runner.wiring.result_buffer import ResultBatch
from service.runner.wiring.sink import ResultSink
from service.runner.wiring.sink_writer import SinkWriter


def begin_of(checked: CheckedSpec, codec: Codec) -> Checkpoint:
    """Return the progress of the earlier runner, with states as payloads of the pool."""
    if checked.stored is None:
        return BEGINNING
    found = checked.stored.found
    states = {
        stage: None if state is None else codec.encode([state]) for stage, state in found.checkpoint.states.items()
    }
    counts = {stage.name: stage.partitions for stage in checked.stages if stage.kind is StageKind.PARTITIONED}
    keyed = {stage: _by_partition(found.keyed.pop(stage, {}), count) for stage, count in counts.items()}
    return replace(found.checkpoint, states=states, keyed=keyed)


def _by_partition(states: KeyStates, count: int) -> dict[int, KeyStates]:
    found: dict[int, dict[Any, Payload | None]] = {}
    for key, partition in zip(states, Partitions(count).of(list(states)), strict=True):
        found.setdefault(partition, {})[key] = states[key]
    return dict(found)


def sink_writer_of(checked: CheckedSpec, next_serial: int, wake: Callable[[], None]) -> SinkWriter | None:
    """Return the writer of the sink; None if there is none, or if it is Spark's. Raises: RecomposeError for an invalid
    sink."""
    spec = checked.spec
    if spec.sink is None or spec.sink.kind == "spark":
        return None
    assert spec.origin.run is not None, "a runner has given it a name"
    opening = Opening(spec.sink.path, spec.origin.run, spec.origin.epoch, spec.sink.options)
    known = None if checked.stored is None else checked.stored.found.wanted
    return SinkWriter(KINDS[spec.sink.kind].open(opening), next_serial, wake, min(known or 0, next_serial))


def checkpointer_of(
    checked: CheckedSpec,
    codec: Codec,
    sink: ResultSink,
    begin: Checkpoint,
    sink_writer: SinkWriter | None,
    wake: Callable[[], None],
) -> Checkpointer:
    """Stands between the sink and those who see results."""
    if checked.stored is None:
        return Checkpointer(sink.release)
    writer, found = checked.stored.writer, checked.stored.found
    writer.tell(wake)
    sink.begin(begin.next_serial, [ResultBatch(*left) for left in found.left])
    parts = CheckpointerParts(
        writer,
        checked.source,
        decode=lambda payload: codec.decode(payload)[0],
        found=found,
        until=None if sink_writer is None else lambda: sink_writer.until,
    )
    checkpointer = CHECKPOINTERS[checked.spec.durable.durability](sink.release, parts)
    sink.way = checkpointer.take
    return checkpointer


def way_out(checkpointer: Checkpointer, sink: ResultSink) -> Callable[[Delivered | Shed], None]:
    """Return the function that takes what leaves the dispatcher."""

    def take(out: Delivered | Shed) -> None:
        checkpointer.left(out)
        sink.take(out)

    return take
