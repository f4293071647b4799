"""The daemon's state in tables that survive a restart. Bodies are JSON text; columns contain only search keys."""

import json
import sqlite3
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, Self, TypeVar

import structlog
from pydantic import BaseModel, TypeAdapter, ValidationError

from compositions.errors import RecomposeError
from compositions.model import Composition
from profiler.slo import Slo
from service.daemon.store.database import Database
from service.schemas.base import plain, utc_now
from service.schemas.compositions import SizeChange
from service.schemas.decisions import Decision, QuietRun
from service.schemas.refusals import BadValueError, NotStoredError
from service.schemas.slo import AcceptedSlo
from service.schemas.spec import RunSpec

log = structlog.get_logger()
_SLO = TypeAdapter(Slo)
_OVERLAY = TypeAdapter(list[tuple[str, Composition | None]])


def body_to_json(body: BaseModel) -> str:
    """Return the body as JSON. Raises: BadValueError for one that could not be read back from the state file."""
    return _read_back(body.model_dump_json(), type(body).model_validate_json)


def _read_back(text: str, read: Callable[[str], object]) -> str:
    try:
        read(text)
    except (ValidationError, RecomposeError) as error:
        raise BadValueError(f"{text[:200]} is not stored, as it would be invalid when read again: {error}") from error
    return text


def slo_to_json(slo: Slo) -> str:
    """Return the objective as JSON. Raises: BadValueError as above."""
    text = _SLO.dump_json(slo, exclude_none=True, exclude=None if slo.also else {"also"}).decode()
    return _read_back(text, slo_from_json)


def slo_from_json(text: str) -> Slo:
    return _SLO.validate_json(text)


class Facts:
    """Single values in the table ``meta``. Writing raises: NotStoredError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, name: str) -> str | None:
        rows = self._database.read("SELECT value FROM meta WHERE key = ?", (name,))
        return str(rows[0][0]) if rows else None

    def put(self, name: str, value: str | None) -> None:
        """Store a value; None removes it."""
        with self._database.writing() as db:
            db.execute("DELETE FROM meta WHERE key = ?", (name,))
            if value is not None:
                db.execute("INSERT INTO meta VALUES (?, ?)", (name, value))


class DurableRuns:
    """Stores source, sink and options of durable runs, by which a start recognizes the run that it continues."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def put(self, db: sqlite3.Connection, spec: RunSpec) -> None:
        """Store those of ``spec`` if its durable run has begun; in the transaction in progress."""
        if spec.origin.run is not None and spec.durable.durability != "none":
            db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (_name(spec.app, spec.origin.run), _of_what(spec)))

    def remove(self, app: str, run: str) -> None:
        """Remove a run that is over and owes nothing. Raises: NotStoredError."""
        if self._facts.get(_name(app, run)) is not None:
            self._facts.put(_name(app, run), None)

    def is_same(self, spec: RunSpec, run: str) -> bool | None:
        """Return whether ``spec`` continues that run; None: nothing is known about it."""
        known = self._facts.get(_name(spec.app, run))
        return None if known is None else known == _of_what(spec)


def _name(app: str, run: str) -> str:
    return f"owing {app} {run}"


def _of_what(spec: RunSpec) -> str:
    parts = {"source": plain(spec.source), "sink": plain(spec.sink), "options": plain(spec.options)}
    return json.dumps(parts, sort_keys=True)


E = TypeVar("E", bound=QuietRun | SizeChange)


class LastingTable(Generic[E]):
    """Entries by start, in table ``name`` (app, first_at, last_at, body). The latest of an app are retained."""

    def __init__(self, database: Database, name: str, most: int, read: Callable[[str], E]) -> None:
        self._database, self._name, self._most, self._read = database, name, most, read

    def put(self, app: str, runs: Iterable[E]) -> None:
        """Add or extend entries; unchanged ones cause no write."""
        rows = [(app, run.first_at, run.last_at, json.dumps(plain(run))) for run in runs]
        with self._database.writing() as db:
            db.executemany(
                f"INSERT INTO {self._name} VALUES (?, ?, ?, ?) ON CONFLICT (app, first_at) DO UPDATE SET"
                " last_at = excluded.last_at, body = excluded.body WHERE body != excluded.body",
                rows,
            )
            db.execute(
                f"DELETE FROM {self._name} WHERE app = ?1 AND first_at NOT IN"
                f" (SELECT first_at FROM {self._name} WHERE app = ?1 ORDER BY last_at DESC, first_at DESC LIMIT ?2)",
                (app, self._most),
            )

    def latest(self, app: str, limit: int, before: str | None = None) -> list[E]:
        """Return the latest entries first: all, or those that ended before that time."""
        sql = (
            f"SELECT body FROM {self._name} WHERE app = ?1 AND (?2 IS NULL OR last_at < ?2)"
            " ORDER BY last_at DESC, first_at DESC LIMIT ?3"
        )
        return [self._read(row[0]) for row in self._database.read(sql, (app, before, limit))]


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
LATER = """
CREATE TABLE IF NOT EXISTS size_change (app TEXT NOT NULL, first_at TEXT NOT NULL, last_at TEXT NOT NULL,
                                        body TEXT NOT NULL, PRIMARY KEY (app, first_at));
"""
"""Tables that an older file of this version may lack; an older service does not use them."""
HISTORY_LIMIT = 1000
"""Maximum number of decisions, and of series of "no change", retained for each app."""
Overlay = dict[str, Composition | None]
"""Compositions changed through REST, by name; ``None`` marks one removed."""


@dataclass(frozen=True, slots=True)
class Started:
    """An app that is meant to run. Its runner counts decisions from 1; the API's ids continue at ``first_decision``."""

    spec: RunSpec
    first_decision: int
    why: str | None = None
    """Reason why the run continues, if it is not a start of the service. Not stored."""

    @property
    def alone(self) -> Self:
        """Return it without objective and compositions, which are stored separately: a change is one write."""
        return replace(self, spec=self.spec.but(slo=None, compositions=()), why=None)


class DaemonStore:
    """The daemon's store. Thread-safe. ``directory`` None keeps everything in memory, for tests and ``run``."""

    def __init__(self, directory: Path | None) -> None:
        self._database = Database(directory, SCHEMA_VERSION, SCHEMA)
        self.quiet_runs = LastingTable(self._database, "no_change", HISTORY_LIMIT, QuietRun.model_validate_json)
        self.size_changes = LastingTable(self._database, "size_change", HISTORY_LIMIT, SizeChange.model_validate_json)
        self.facts = Facts(self._database)
        self.durable_runs = DurableRuns(self.facts)
        self.trouble = self._database.trouble
        self.instance = self._instance()

    def _instance(self) -> str:
        """Return a name for this state directory, so that daemons on one Ray cluster find only their own runners."""
        with self._database.writing() as db:
            db.execute(LATER)
        if (known := self.facts.get("instance")) is not None:
            return known
        self.facts.put("instance", named := uuid.uuid4().hex[:12])
        return named

    def close(self) -> None:
        self._database.close()

    def put_slo(self, app: str, slo: Slo) -> AcceptedSlo:
        """Set or replace the SLO of ``app``; it gets a new id."""
        accepted_at = utc_now()
        with self._database.writing() as db:
            db.execute("DELETE FROM slo WHERE app = ?", (app,))
            row = (app, slo_to_json(slo), accepted_at)
            cursor = db.execute("INSERT INTO slo (app, body, accepted_at) VALUES (?, ?, ?)", row)
        return AcceptedSlo(int(cursor.lastrowid or 0), app, slo, accepted_at)

    def slo(self, app: str) -> AcceptedSlo | None:
        return next((stored for stored in self.slos() if stored.app == app), None)

    def slos(self) -> list[AcceptedSlo]:
        rows = self._database.read("SELECT id, app, body, accepted_at FROM slo ORDER BY app")
        return [AcceptedSlo(row[0], row[1], slo_from_json(row[2]), row[3]) for row in rows]

    def put_back_slo(self, app: str, accepted: AcceptedSlo | None) -> None:
        """Restore the objective under its old id; None: there was none."""
        with self._database.writing() as db:
            db.execute("DELETE FROM slo WHERE app = ?", (app,))
            if accepted is not None:
                row = (accepted.id, app, slo_to_json(accepted.slo), accepted.accepted_at)
                db.execute("INSERT INTO slo (id, app, body, accepted_at) VALUES (?, ?, ?, ?)", row)

    def remove_slo(self, app: str) -> None:
        self.put_back_slo(app, None)

    def put_started(self, app: str, started: Started) -> None:
        with self._database.writing() as db:
            db.execute(
                "INSERT INTO started VALUES (?, ?, ?) ON CONFLICT (app) DO UPDATE SET"
                " spec = excluded.spec, first_decision = excluded.first_decision",
                (app, body_to_json(started.spec), started.first_decision),
            )
            self.durable_runs.put(db, started.spec)

    def started(self) -> dict[str, Started]:
        rows = self._database.read("SELECT app, spec, first_decision FROM started ORDER BY app")
        return {row[0]: Started(RunSpec.model_validate_json(row[1]), row[2]) for row in rows}

    def remove_started(self, app: str) -> None:
        with self._database.writing() as db:
            db.execute("DELETE FROM started WHERE app = ?", (app,))

    def put_overlay(self, app: str, overlay: Mapping[str, Composition | None]) -> None:
        row = (app, _read_back(_OVERLAY.dump_json([*overlay.items()]).decode(), _OVERLAY.validate_json))
        with self._database.writing() as db:
            db.execute("INSERT INTO overlay VALUES (?, ?) ON CONFLICT (app) DO UPDATE SET body = excluded.body", row)

    def overlay(self, app: str) -> Overlay:
        rows = self._database.read("SELECT body FROM overlay WHERE app = ?", (app,))
        return dict(_OVERLAY.validate_json(rows[0][0])) if rows else {}

    def put_decisions(self, app: str, decisions: Iterable[Decision]) -> None:
        """Add decisions, or replace those with a new outcome; unchanged ones cause no write."""
        rows = [(app, decision.id, json.dumps(plain(decision))) for decision in decisions]
        with self._database.writing() as db:
            db.executemany(
                "INSERT INTO decision VALUES (?, ?, ?) ON CONFLICT (app, id) DO UPDATE SET body = excluded.body"
                " WHERE body != excluded.body",
                rows,
            )
            db.execute(
                "DELETE FROM decision WHERE app = ?1 AND id <= (SELECT max(id) FROM decision WHERE app = ?1) - ?2",
                (app, HISTORY_LIMIT),
            )

    def decisions(self, app: str, limit: int, before: str | None = None, through: int | None = None) -> list[Decision]:
        """Return the newest decisions, newest first: all, those before a time, or those up to an id."""
        sql = (
            "SELECT body FROM decision WHERE app = ?1 AND (?2 IS NULL OR json_extract(body, '$.at') < ?2)"
            " AND (?3 IS NULL OR id <= ?3) ORDER BY id DESC LIMIT ?4"
        )
        return [Decision.model_validate_json(row[0]) for row in self._database.read(sql, (app, before, through, limit))]

    def last_decision_id(self, app: str) -> int:
        """Return the last decision's id, or 0."""
        return int(self._database.read("SELECT coalesce(max(id), 0) FROM decision WHERE app = ?", (app,))[0][0])


@contextmanager
def undone_by_failure(put_back: Callable[[], None]) -> Iterator[None]:
    try:
        yield
    except Exception:
        try:
            put_back()
        except NotStoredError as error:  # the disk filled up between the two: only the log can report it
            log.warning("a failed change could not be undone in the state file", error=str(error))
        raise
