"""Where the journal of a run is, and what becomes of those of runs before it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import structlog

from compositions.errors import RecomposeError
from service.running.durable.journal import Journal, owed
from service.running.durable.log_check import log_damage
from service.running.durable.sealed import Damaged

SUFFIX = ".journal"
log = structlog.get_logger()


def open_journal(folder: str, app: str, run: str, epoch: int, *, sync: bool = True) -> Journal:
    """Raises: as :class:`service.running.durable.journal_file.JournalFile`."""
    path = Path(folder).expanduser().absolute() / app / f"{run}{SUFFIX}"
    journal = Journal(path, run, epoch, sync=sync)
    if epoch == 1:
        for other in path.parent.glob(f"*{SUFFIX}"):
            if other != path:
                _retire(other)
    return journal


def _retire(path: Path) -> None:
    """Of a run that is over; one that owes somebody something stays."""
    try:
        damage = log_damage(path, synced=True)
        if damage is not None:
            log.warning("an earlier journal is damaged and stays", path=str(path), error=damage)
            return
        what = owed(path)
    except (sqlite3.Error, OSError, UnicodeDecodeError, Damaged, RecomposeError) as error:
        log.warning("an earlier journal cannot be read and stays", path=str(path), error=str(error))
        return
    if what is not None:
        log.warning(f"an earlier journal has {what}, and stays", path=str(path))
        return
    for each in (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
        each.unlink(missing_ok=True)
