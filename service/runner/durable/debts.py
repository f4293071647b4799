"""Read from a journal what its run owes: items that were acknowledged and did not leave, results that a sink lacks."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from compositions.errors import RecomposeError
from service.runner.durable.journal import progress_of
from service.runner.durable.journal_file import check_version
from service.runner.durable.values import Damaged

SUFFIX = ".journal"


@dataclass(frozen=True, slots=True)
class Debt:
    """Counts what one run owes, as far as its journal can be read."""

    journal: Path
    run: str
    epoch: int | None = None
    """The epoch of its last runner; None where the journal cannot be read."""
    items: int | None = None
    """The number of items that were acknowledged and did not leave."""
    results: int | None = None
    """The number of results that left and are not in the sink."""
    fault: str | None = None
    """The reason why the journal cannot be read."""


def journal_path(folder: str, app: str, run: str) -> Path:
    return Path(folder).expanduser().absolute() / app / f"{run}{SUFFIX}"


def debts_of(folder: str, app: str) -> Iterator[Debt]:
    """Yield what the runs of an app owe, the oldest journal first."""
    found = (Path(folder).expanduser().absolute() / app).glob(f"*{SUFFIX}")
    for path in sorted(found, key=lambda each: (_written_s(each), each.name)):
        if (debt := debt_in(path)) is not None:
            yield debt


def debt_in(path: Path) -> Debt | None:
    """Return what the run of a journal owes; None: nothing, or there is no journal. Whoever runs it may go on."""
    if not path.exists():
        return None
    run = path.name.removesuffix(SUFFIX)
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as db:
            found = _read(db, path, run)
    except (sqlite3.Error, OSError, UnicodeDecodeError, Damaged, RecomposeError) as error:
        return Debt(path, run, fault=str(error))
    return found if found.items or found.results else None


def _read(db: sqlite3.Connection, path: Path, run: str) -> Debt:
    check_version(db, path)
    holder = db.execute("SELECT epoch FROM holder").fetchone() if _is_made(db) else None
    if holder is None:  # its first runner has not come to it
        return Debt(path, run, 0, 0, 0)
    row = db.execute("SELECT body FROM progress").fetchone()
    delivered, failed, shed, _, wanted, _ = progress_of(row[0]) if row is not None else (0, 0, 0, {}, None, None)
    out = delivered + failed + shed
    pushed = db.execute("SELECT first, count FROM pushed").fetchall()
    items = sum(max(0, first + count - max(first, out)) for first, count in pushed)
    return Debt(path, run, int(holder[0]), items, 0 if wanted is None else max(0, out - wanted))


def _is_made(db: sqlite3.Connection) -> bool:
    return bool(db.execute("PRAGMA user_version").fetchone()[0])


def _written_s(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # it was removed meanwhile
        return 0.0
