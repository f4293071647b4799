"""What there is one of in a state file, by name."""

from __future__ import annotations

from service.daemon.storing.database import Database


class Facts:
    """In the table ``meta``. Writing raises: NotStoredError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, name: str) -> str | None:
        rows = self._database.read("SELECT value FROM meta WHERE key = ?", (name,))
        return str(rows[0][0]) if rows else None

    def put(self, name: str, value: str | None) -> None:
        """None: it is no more."""
        with self._database.writing() as db:
            db.execute("DELETE FROM meta WHERE key = ?", (name,))
            if value is not None:
                db.execute("INSERT INTO meta VALUES (?, ?)", (name, value))
