"""What a durable run finds of the runner before it, and where it keeps what the next one is to find."""

from __future__ import annotations

from dataclasses import dataclass

from apps.contract import App
from apps.input.inbox import Inbox
from apps.input.positions import Positioned
from apps.input.push import Push
from apps.input.sources import Source
from compositions.errors import RecomposeError
from service.bodies.spec import RunSpec
from service.running.checking.pushes import JournalledDoor, PushDoor
from service.running.durable.group_writer import GroupWriter
from service.running.durable.opening import open_journal
from service.running.durable.values import Resumption

WHY = "it cannot be read again from a position; replay, push, folder, redis, kafka, nats, mqtt and rabbitmq can"
OWN = "which keeps a checkpoint of its own"


@dataclass(frozen=True, slots=True)
class Kept:
    found: Resumption
    writer: GroupWriter


def kept_of(spec: RunSpec, source: Source) -> Kept | None:
    """None: nothing is to outlive the runner.

    Raises: RecomposeError for a source that cannot be read again from where it was, or a run that has no folder for it;
    or as the journal says.
    """
    if spec.durability == "none":
        return None
    if not isinstance(source, Push | Positioned | Inbox):
        raise RecomposeError(f"durability {spec.durability!r} does not go with source {spec.source.kind!r}: {WHY}")
    if spec.journals is None or spec.run is None:
        raise RecomposeError(f"durability {spec.durability!r} needs the service, which has a folder for journals")
    if spec.sink is not None and spec.sink.kind == "spark":
        raise RecomposeError(f"durability {spec.durability!r} does not go with sink {spec.sink.kind!r}, {OWN}")
    journal = open_journal(spec.journals, spec.app, spec.run, spec.epoch, sync=spec.journal_sync)
    pushed = _pushed(source)
    accept = _nothing if pushed is None else pushed.extend
    return Kept(journal.found, GroupWriter(journal, journal.found.accepted, accept))


def _pushed(source: Source) -> Push | None:
    """Where what is stored first waits to be read."""
    return source.buffer if isinstance(source, Inbox) else source if isinstance(source, Push) else None


def _nothing(_: object) -> None:
    """Nobody pushes."""


def door_of(kind: str, app: App, source: Source, kept: Kept | None) -> PushDoor:
    """With what was acknowledged and is not out, or the source at its position."""
    if kept is None:
        return PushDoor(app, source, kind)
    if isinstance(source, Positioned):
        source.seek(kept.found.positions)
        return PushDoor(app, source, kind)
    door = JournalledDoor(app, _pushed(source) or source, kind, kept.writer)
    door.take_back(kept.found.undelivered, kept.found.accepted)
    if isinstance(source, Inbox):  # it has a way in of its own, and the door stays shut for others
        source.by_way_of(kept.writer.push)
        return PushDoor(app, source, kind)
    return door
