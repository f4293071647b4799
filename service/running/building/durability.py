"""A run goes on where the runner before it had come, and keeps what the next one needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from runtime.dispatch.checkpoint import BEGINNING, Checkpoint
from runtime.pools.port import Codec
from service.running.building.keeper import KEEPERS, Keeper, Keeping
from service.running.building.kept import Run
from service.running.building.sink import ResultSink
from service.running.checking.checked import CheckedSpec


def begin_of(checked: CheckedSpec, codec: Codec) -> Checkpoint:
    """How far it had come, with states as payloads of the pool."""
    if checked.kept is None:
        return BEGINNING
    found = checked.kept.found.checkpoint
    states = {stage: None if state is None else codec.encode([state]) for stage, state in found.states.items()}
    return replace(found, states=states)


def keeper_of(
    checked: CheckedSpec, codec: Codec, sink: ResultSink, begin: Checkpoint, wake: Callable[[], None]
) -> Keeper:
    """Stands between the sink and those who see results."""
    if checked.kept is None:
        return Keeper(sink.release)
    writer, found = checked.kept.writer, checked.kept.found
    writer.tell(wake)
    sink.begin(begin.next_serial, [Run(*left) for left in found.left])
    keeping = Keeping(writer, checked.source, lambda payload: codec.decode(payload)[0], begin, found.positions)
    keeper = KEEPERS[checked.spec.durability](sink.release, keeping)
    sink.way = keeper.take
    return keeper
