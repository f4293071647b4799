"""Tables of the state file: single values by name, alert rules, entries with a beginning and an end; and their JSON.

Everything is read back through the model that will read it before it is stored.
"""

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

import structlog
from pydantic import BaseModel, TypeAdapter, ValidationError

from compositions.errors import RecomposeError
from compositions.model import Composition
from profiler.slo import Slo
from service.daemon.store.database import Database
from service.schemas.alerts import AlertsRequest
from service.schemas.base import plain
from service.schemas.batching import SizeChange
from service.schemas.decisions import QuietRun
from service.schemas.refusals import BadValueError
from service.schemas.spec import RunSpec

_SLO = TypeAdapter(Slo)
_COMPOSITION = TypeAdapter(Composition)


def body_to_json(body: BaseModel) -> str:
    """Return the body as JSON. Raises: BadValueError for a body that could not be read back, as it would make the state
    file useless."""
    return _read_back(body.model_dump_json(), type(body).model_validate_json)


def _read_back(text: str, read: Callable[[str], object]) -> str:
    try:
        read(text)
    except (ValidationError, RecomposeError) as error:
        raise BadValueError(f"{text[:200]} cannot be stored, as it could not be read again: {error}") from error
    return text


def slo_to_json(slo: Slo) -> str:
    """Return the objective as JSON. Raises: BadValueError as above."""
    text = _SLO.dump_json(slo, exclude_none=True, exclude=None if slo.also else {"also"}).decode()
    return _read_back(text, slo_from_json)


def slo_from_json(text: str) -> Slo:
    return _SLO.validate_json(text)


def overlay_to_json(overlay: Mapping[str, Composition | None]) -> str:
    """Return the overlay as JSON. Raises: BadValueError as above."""
    pairs = [[name, each and _COMPOSITION.dump_python(each, mode="json")] for name, each in overlay.items()]
    return _read_back(json.dumps(pairs), overlay_from_json)


def overlay_from_json(text: str) -> dict[str, Composition | None]:
    return {name: body and _COMPOSITION.validate_python(body) for name, body in json.loads(text)}


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
    """Keeps source, sink and options of durable runs, by which a start is told from a start of something else."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def put(self, db: sqlite3.Connection, spec: RunSpec) -> None:
        """Store those of ``spec``, where it is of a durable run that has begun: in a transaction that is under way."""
        if spec.origin.run is not None and spec.durable.durability != "none":
            db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (_name(spec.app, spec.origin.run), _of_what(spec)))

    def remove(self, app: str, run: str) -> None:
        """Forget a run that is over and owes nothing. Raises: NotStoredError."""
        if self._facts.get(_name(app, run)) is not None:
            self._facts.put(_name(app, run), None)

    def is_same(self, spec: RunSpec, run: str) -> bool | None:
        """Return whether ``spec`` is of the same as that run; None: nothing is known of it."""
        known = self._facts.get(_name(spec.app, run))
        return None if known is None else known == _of_what(spec)


def _name(app: str, run: str) -> str:
    return f"owing {app} {run}"


def _of_what(spec: RunSpec) -> str:
    parts = {"source": plain(spec.source), "sink": plain(spec.sink), "options": plain(spec.options)}
    return json.dumps(parts, sort_keys=True)


NAME = "alerts"
log = structlog.get_logger()


class AlertRules:
    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def put_rules(self, asked: AlertsRequest) -> None:
        """Replace all rules. Raises: NotStoredError, BadValueError."""
        self._facts.put(NAME, body_to_json(asked))

    def rules(self) -> AlertsRequest:
        """Return the stored rules; none if they were stored by an earlier version and cannot be read."""
        found = self._facts.get(NAME)
        try:
            return AlertsRequest() if found is None else AlertsRequest.model_validate_json(found)
        except ValidationError as error:
            log.error("the stored alert rules cannot be read and are not in force; set them again", error=str(error))
            return AlertsRequest()


E = TypeVar("E", bound=QuietRun | SizeChange)


class LastingTable(Generic[E]):
    """Entries with a beginning, which names them, and an end. ``name`` is one of our own, with the columns app,
    first_at, last_at, body. The latest ``most`` of an app stay."""

    def __init__(self, database: Database, name: str, most: int, read: Callable[[str], E]) -> None:
        self._database, self._name, self._most, self._read = database, name, most, read

    def put(self, app: str, runs: Iterable[E]) -> None:
        """Adds or extends them; unchanged ones cost no write."""
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
        """The latest first: of all, or of those that ended before that time."""
        sql = (
            f"SELECT body FROM {self._name} WHERE app = ?1 AND (?2 IS NULL OR last_at < ?2)"
            " ORDER BY last_at DESC, first_at DESC LIMIT ?3"
        )
        return [self._read(row[0]) for row in self._database.read(sql, (app, before, limit))]
