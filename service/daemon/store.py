"""What survives a restart: one SQLite file in the state directory.

Every change is one transaction in a write-ahead log, so a daemon killed at any moment leaves a consistent file. Bodies
are JSON text: the tables hold only what is searched for.
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compositions.errors import RecomposeError
from compositions.model import Composition
from profiler.slo import Slo
from service.bodies.base import plain, utc_now
from service.bodies.decisions import Decision, QuietRun
from service.bodies.slo import AcceptedSlo
from service.bodies.spec import RunSpec
from service.daemon.codec import composition_from_json, composition_to_json, slo_from_json, slo_to_json

SCHEMA_VERSION = 1
SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE slo (id INTEGER PRIMARY KEY AUTOINCREMENT, app TEXT NOT NULL UNIQUE, body TEXT NOT NULL,
                  accepted_at TEXT NOT NULL);
CREATE TABLE started (app TEXT PRIMARY KEY, spec TEXT NOT NULL, first_decision INTEGER NOT NULL);
CREATE TABLE overlay (app TEXT PRIMARY KEY, body TEXT NOT NULL);
CREATE TABLE decision (app TEXT NOT NULL, id INTEGER NOT NULL, body TEXT NOT NULL, PRIMARY KEY (app, id));
CREATE TABLE no_change (app TEXT NOT NULL, first_at TEXT NOT NULL, last_at TEXT NOT NULL, body TEXT NOT NULL,
                        PRIMARY KEY (app, first_at));
"""
HISTORY_LIMIT = 1000
"""Decisions, and runs of no change, kept for each app."""
Overlay = dict[str, Composition | None]
"""Compositions changed through REST, by name; ``None`` marks one removed."""


@dataclass(frozen=True, slots=True)
class Started:
    """An app that is meant to run. Its runner counts decisions from 1; the API's ids continue at ``first_decision``."""

    spec: RunSpec
    first_decision: int


def default_directory() -> Path:
    """The user's state directory (XDG base directories: ``$XDG_STATE_HOME``, else ``~/.local/state``)."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "recompose"


class State:
    """The daemon's memory. Thread-safe. ``directory`` None keeps everything in memory, for tests and ``run``."""

    def __init__(self, directory: Path | None) -> None:
        self._lock = threading.Lock()
        self._file_lock = _claim(directory) if directory else None
        try:
            self._db = _open(directory / "recompose.sqlite" if directory else None)
        except BaseException:
            self._release()
            raise
        self.instance = self._instance()

    def close(self) -> None:
        with self._lock:
            self._db.close()
        self._release()

    def _release(self) -> None:
        if self._file_lock is not None:
            os.close(self._file_lock)
            self._file_lock = None

    # --- SLOs ---

    def put_slo(self, app: str, slo: Slo) -> AcceptedSlo:
        """Sets or replaces the SLO of ``app``; each gets a new id."""
        accepted_at = utc_now()
        with self._writing() as db:
            db.execute("DELETE FROM slo WHERE app = ?", (app,))
            cursor = db.execute(
                "INSERT INTO slo (app, body, accepted_at) VALUES (?, ?, ?)", (app, slo_to_json(slo), accepted_at)
            )
        return AcceptedSlo(int(cursor.lastrowid or 0), app, slo, accepted_at)

    def slo(self, app: str) -> AcceptedSlo | None:
        return next((stored for stored in self.slos() if stored.app == app), None)

    def slos(self) -> list[AcceptedSlo]:
        rows = self._read("SELECT id, app, body, accepted_at FROM slo ORDER BY app")
        return [AcceptedSlo(row[0], row[1], slo_from_json(row[2]), row[3]) for row in rows]

    def remove_slo(self, app: str) -> None:
        with self._writing() as db:
            db.execute("DELETE FROM slo WHERE app = ?", (app,))

    # --- apps that are meant to run ---

    def put_started(self, app: str, started: Started) -> None:
        with self._writing() as db:
            db.execute(
                "INSERT INTO started VALUES (?, ?, ?) ON CONFLICT (app) DO UPDATE SET"
                " spec = excluded.spec, first_decision = excluded.first_decision",
                (app, started.spec.model_dump_json(), started.first_decision),
            )

    def started(self) -> dict[str, Started]:
        rows = self._read("SELECT app, spec, first_decision FROM started ORDER BY app")
        return {row[0]: Started(RunSpec.model_validate_json(row[1]), row[2]) for row in rows}

    def remove_started(self, app: str) -> None:
        with self._writing() as db:
            db.execute("DELETE FROM started WHERE app = ?", (app,))

    # --- compositions changed through REST ---

    def put_overlay(self, app: str, overlay: Mapping[str, Composition | None]) -> None:
        body = json.dumps([[name, comp and composition_to_json(comp)] for name, comp in overlay.items()])
        with self._writing() as db:
            db.execute(
                "INSERT INTO overlay VALUES (?, ?) ON CONFLICT (app) DO UPDATE SET body = excluded.body", (app, body)
            )

    def overlay(self, app: str) -> Overlay:
        rows = self._read("SELECT body FROM overlay WHERE app = ?", (app,))
        pairs = json.loads(rows[0][0]) if rows else []
        return {name: body and composition_from_json(body) for name, body in pairs}

    # --- history ---

    def put_decisions(self, app: str, decisions: Iterable[Decision]) -> None:
        """Adds decisions, or replaces those whose outcome has become known; unchanged ones cost no write."""
        rows = [(app, decision.id, json.dumps(plain(decision))) for decision in decisions]
        with self._writing() as db:
            db.executemany(
                "INSERT INTO decision VALUES (?, ?, ?) ON CONFLICT (app, id) DO UPDATE SET body = excluded.body"
                " WHERE body != excluded.body",
                rows,
            )
            db.execute(
                "DELETE FROM decision WHERE app = ?1 AND id <= (SELECT max(id) FROM decision WHERE app = ?1) - ?2",
                (app, HISTORY_LIMIT),
            )

    def put_changes(self, app: str, runs: Iterable[QuietRun]) -> None:
        """Adds or extends runs of "no change" (``first_at`` names a run)."""
        rows = [(app, run.first_at, run.last_at, json.dumps(plain(run))) for run in runs]
        with self._writing() as db:
            db.executemany(
                "INSERT INTO no_change VALUES (?, ?, ?, ?) ON CONFLICT (app, first_at) DO UPDATE SET"
                " last_at = excluded.last_at, body = excluded.body WHERE body != excluded.body",
                rows,
            )
            db.execute(
                "DELETE FROM no_change WHERE app = ?1 AND first_at NOT IN"
                " (SELECT first_at FROM no_change WHERE app = ?1 ORDER BY first_at DESC LIMIT ?2)",
                (app, HISTORY_LIMIT),
            )

    def decisions(self, app: str, limit: int) -> list[Decision]:
        """The newest decisions, newest first."""
        rows = self._read("SELECT body FROM decision WHERE app = ? ORDER BY id DESC LIMIT ?", (app, limit))
        return [Decision.model_validate_json(row[0]) for row in rows]

    def changes(self, app: str, limit: int) -> list[QuietRun]:
        """The newest runs of no change, newest first."""
        rows = self._read("SELECT body FROM no_change WHERE app = ? ORDER BY first_at DESC LIMIT ?", (app, limit))
        return [QuietRun.model_validate_json(row[0]) for row in rows]

    def last_decision_id(self, app: str) -> int:
        """0 when there is none."""
        return int(self._read("SELECT coalesce(max(id), 0) FROM decision WHERE app = ?", (app,))[0][0])

    # --- inside ---

    def _instance(self) -> str:
        """Names this state directory, so that daemons sharing a Ray cluster find only their own runners."""
        with self._writing() as db:
            db.execute("INSERT OR IGNORE INTO meta VALUES ('instance', ?)", (uuid.uuid4().hex[:12],))
        return str(self._read("SELECT value FROM meta WHERE key = 'instance'")[0][0])

    def _read(self, sql: str, args: tuple[Any, ...] = ()) -> list[Any]:
        with self._lock:
            return self._db.execute(sql, args).fetchall()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._db:
            yield self._db


def _open(path: Path | None) -> sqlite3.Connection:
    db = sqlite3.connect(path or ":memory:", check_same_thread=False)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        _migrate(db, path)
    except (sqlite3.DatabaseError, RecomposeError) as error:
        db.close()
        if isinstance(error, RecomposeError):
            raise
        raise RecomposeError(f"{path} is not a readable state file ({error}); move it away to start afresh") from error
    return db


def _migrate(db: sqlite3.Connection, path: Path | None) -> None:
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    if version > SCHEMA_VERSION:
        raise RecomposeError(
            f"{path} has schema version {version}, this recompose reads up to {SCHEMA_VERSION}; use a newer one"
        )
    if version == 0:
        db.executescript(f"BEGIN; {SCHEMA} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;")


def _claim(directory: Path) -> int:
    """Locks the directory for this process; the lock ends with the process, however that ends."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise RecomposeError(f"state directory {directory} cannot be used: {error.strerror}") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        raise RecomposeError(f"state directory {directory} is in use by another recompose; give --state DIR") from error
    return handle
