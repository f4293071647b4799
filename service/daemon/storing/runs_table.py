"""A table of what lasts: entries of an app that grow until others follow, each named by when it began."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Protocol

from service.bodies.base import plain
from service.daemon.storing.database import Database


class Lasting(Protocol):
    """A body with a beginning and an end."""

    @property
    def first_at(self) -> str: ...

    @property
    def last_at(self) -> str: ...


class RunsTable:
    """``name`` is one of our own, with the columns app, first_at, last_at, body. The latest ``most`` of an app stay."""

    def __init__(self, database: Database, name: str, most: int) -> None:
        self._database, self._name, self._most = database, name, most

    def put(self, app: str, runs: Iterable[Lasting]) -> None:
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

    def latest(self, app: str, limit: int, before: str | None = None) -> list[str]:
        """Their bodies as JSON text, the latest first: of all, or of those that ended before that time."""
        sql = (
            f"SELECT body FROM {self._name} WHERE app = ?1 AND (?2 IS NULL OR last_at < ?2)"
            " ORDER BY last_at DESC, first_at DESC LIMIT ?3"
        )
        return [row[0] for row in self._database.read(sql, (app, before, limit))]
