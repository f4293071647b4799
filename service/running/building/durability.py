"""A run goes on where the runner before it had come, and keeps what the next one needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from apps.keys import Partitions
from apps.output.kinds import KINDS, Opening
from compositions.model import StageKind
from runtime.dispatch.checkpoint import BEGINNING, Checkpoint
from runtime.dispatch.events import KeyStates, Payload
from runtime.dispatch.outcomes import Delivered, Shed
from runtime.pools.port import Codec
from service.running.building.keeper import KEEPERS, Keeper, Keeping
from service.running.building.kept import Run
from service.running.building.outlet import Outlet
from service.running.building.sink import ResultSink
from service.running.checking.checked import CheckedSpec


def begin_of(checked: CheckedSpec, codec: Codec) -> Checkpoint:
    """How far it had come, with states as payloads of the pool."""
    if checked.kept is None:
        return BEGINNING
    found = checked.kept.found
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


def outlet_of(checked: CheckedSpec, next_serial: int, wake: Callable[[], None]) -> Outlet | None:
    """Where results go for good, if that is no matter of Spark's. Raises: RecomposeError for a sink that cannot be."""
    spec = checked.spec
    if spec.sink is None or spec.sink.kind == "spark":
        return None
    assert spec.run is not None, "a runner has given it a name"
    opening = Opening(spec.sink.path, spec.run, spec.epoch, spec.sink.options)
    known = None if checked.kept is None else checked.kept.found.wanted
    return Outlet(KINDS[spec.sink.kind].open(opening), next_serial, wake, min(known or 0, next_serial))


def keeper_of(
    checked: CheckedSpec,
    codec: Codec,
    sink: ResultSink,
    begin: Checkpoint,
    outlet: Outlet | None,
    wake: Callable[[], None],
) -> Keeper:
    """Stands between the sink and those who see results."""
    if checked.kept is None:
        return Keeper(sink.release)
    writer, found = checked.kept.writer, checked.kept.found
    writer.tell(wake)
    sink.begin(begin.next_serial, [Run(*left) for left in found.left])
    keeping = Keeping(
        writer,
        checked.source,
        decode=lambda payload: codec.decode(payload)[0],
        found=found,
        until=None if outlet is None else lambda: outlet.until,
    )
    keeper = KEEPERS[checked.spec.durability](sink.release, keeping)
    sink.way = keeper.take
    return keeper


def way_out(keeper: Keeper, sink: ResultSink) -> Callable[[Delivered | Shed], None]:
    """For what leaves the dispatcher."""

    def take(out: Delivered | Shed) -> None:
        keeper.left(out)
        sink.take(out)

    return take
