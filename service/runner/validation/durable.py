"""Open the journal of a durable run: what the previous runner stored, and where this one stores its progress."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path

import structlog

from apps.contract import App
from compositions.errors import RecomposeError
from datapipe.sources.inbox import Inbox
from datapipe.sources.portions import Positioned
from datapipe.sources.push import Push
from datapipe.sources.sources import Source
from service.runner.durable.debts import SUFFIX, journal_path
from service.runner.durable.group_writer import GroupWriter
from service.runner.durable.journal import Journal, owed
from service.runner.durable.log_check import log_damage
from service.runner.durable.values import Damaged, Resumption
from service.runner.validation.pushes import JournalledDoor, PushDoor
from service.schemas.spec import RunSpec

WHY = "it cannot be read again from a position; replay, push, folder, redis, kafka, nats, mqtt and rabbitmq can"
OWN = "which keeps a checkpoint of its own; the others do"


@dataclass(frozen=True, slots=True)
class StoredRun:
    found: Resumption
    writer: GroupWriter


def durability_fault(spec: RunSpec) -> str | None:
    """Return why a durable run cannot use its source or its sink; None if it can."""
    if spec.durable.durability == "none":
        return None
    if not spec.source.of.durable:
        return f"durability {spec.durable.durability!r} does not go with source {spec.source.kind!r}: {WHY}"
    if spec.sink is not None and spec.sink.kind == "spark":
        return f"durability {spec.durable.durability!r} does not go with sink {spec.sink.kind!r}, {OWN}"
    return None


def open_durable(spec: RunSpec, source: Source) -> StoredRun | None:
    """Open the journal of a durable run; None if the run is not durable.

    Raises: RecomposeError for a source that cannot be read again from a position, for a run without a folder for
    journals, or as the journal says.
    """
    durable, origin = spec.durable, spec.origin
    if durable.durability == "none":
        return None
    if (fault := durability_fault(spec)) is not None:
        raise RecomposeError(fault)
    if not isinstance(source, Push | Positioned | Inbox):
        raise RecomposeError(f"durability {durable.durability!r} does not go with source {spec.source.kind!r}: {WHY}")
    if durable.journals is None or origin.run is None:
        raise RecomposeError(f"durability {durable.durability!r} needs the service, which has a folder for journals")
    journal = open_journal(durable.journals, spec.app, origin.run, origin.epoch, sync=durable.journal_sync)
    pushed = _pushed(source)
    accept = _nothing if pushed is None else pushed.extend
    return StoredRun(journal.found, GroupWriter(journal, journal.found.accepted, accept))


def _pushed(source: Source) -> Push | None:
    """Return where what is stored first waits to be read."""
    return source.buffer if isinstance(source, Inbox) else source if isinstance(source, Push) else None


def _nothing(_: object) -> None:
    """Nobody pushes."""


def push_door(kind: str, app: App, source: Source, kept: StoredRun | None) -> PushDoor:
    """Return the entrance of pushed items, with those that were acknowledged and are not out; or put the source at its
    position."""
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


log = structlog.get_logger()


def open_journal(folder: str, app: str, run: str, epoch: int, *, sync: bool = True) -> Journal:
    """Raises: as :class:`service.runner.durable.journal_file.JournalFile`."""
    path = journal_path(folder, app, run)
    journal = Journal(path, run, epoch, sync=sync)
    if epoch == 1:
        for other in path.parent.glob(f"*{SUFFIX}"):
            if other != path:
                _retire(other)
    return journal


def _retire(path: Path) -> None:
    """Remove the journal of a run that is over; one that still owes data stays."""
    try:
        damage = log_damage(path, synced=True)
        if damage is not None:
            log.warning("an earlier journal is damaged; it is kept", path=str(path), error=damage)
            return
        what = owed(path)
    except (sqlite3.Error, OSError, UnicodeDecodeError, Damaged, RecomposeError) as error:
        log.warning("an earlier journal cannot be read; it is kept", path=str(path), error=str(error))
        return
    if what is not None:
        log.warning(f"an earlier journal has {what}; it is kept", path=str(path))
        return
    for each in (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
        each.unlink(missing_ok=True)
