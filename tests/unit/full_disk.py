"""A state file on a disk without room, for tests: every write fails as SQLite's own does, reads go on."""

import sqlite3
from typing import Any

from service.daemon.store.store import DaemonStore


class _Full:
    """A connection whose writes fail; ``left`` of them still succeed."""

    def __init__(self, db: sqlite3.Connection, left: int) -> None:
        self.db, self.left = db, left

    def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
        if not sql.lstrip().upper().startswith("SELECT"):
            self._spend()
        return self.db.execute(sql, *args)

    def executemany(self, sql: str, *args: Any) -> sqlite3.Cursor:
        self._spend()
        return self.db.executemany(sql, *args)

    def _spend(self) -> None:
        if self.left == 0:
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error
        self.left -= 1

    def __enter__(self) -> sqlite3.Connection:
        self.db.__enter__()
        return self  # type: ignore[return-value]  # stands in for it

    def __exit__(self, *error: Any) -> None:
        self.db.__exit__(*error)

    def close(self) -> None:
        self.db.close()


def fill(store: DaemonStore, left: int = 0) -> None:
    """From now on; after ``left`` more statements that write."""
    store._database._db = _Full(store._database._db, left)  # type: ignore[assignment]  # stands in for it


def free(store: DaemonStore) -> None:
    full = store._database._db
    assert isinstance(full, _Full)
    store._database._db = full.db
