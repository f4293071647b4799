"""The file that survives a restart: SQLite in the state directory, for one daemon at a time.

Every change is one transaction in a write-ahead log, so a daemon killed at any moment leaves a consistent file.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from compositions.errors import RecomposeError

FILE = "recompose.sqlite"


def default_directory() -> Path:
    """The user's state directory (XDG base directories: ``$XDG_STATE_HOME``, else ``~/.local/state``)."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "recompose"


class Database:
    """Thread-safe. ``directory`` None keeps everything in memory, for tests and ``run``.

    ``schema`` makes a new file's tables, in version ``version``. Raises: RecomposeError when the directory cannot be
    used, another daemon has it, or what is there is no file of this version.
    """

    def __init__(self, directory: Path | None, version: int, schema: str) -> None:
        self._lock = threading.Lock()
        self._claim = _claim(directory) if directory else None
        try:
            self._db = _open(directory / FILE if directory else None, version, schema)
        except BaseException:
            self._release()
            raise

    def close(self) -> None:
        with self._lock:
            self._db.close()
        self._release()

    def _release(self) -> None:
        if self._claim is not None:
            os.close(self._claim)
            self._claim = None

    def read(self, sql: str, args: tuple[Any, ...] = ()) -> list[Any]:
        with self._lock:
            return self._db.execute(sql, args).fetchall()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction: committed at the end, or rolled back by an error."""
        with self._lock, self._db:
            yield self._db


def _open(path: Path | None, version: int, schema: str) -> sqlite3.Connection:
    db = sqlite3.connect(path or ":memory:", check_same_thread=False)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        _migrate(db, path, version, schema)
    except (sqlite3.DatabaseError, RecomposeError) as error:
        db.close()
        if isinstance(error, RecomposeError):
            raise
        raise RecomposeError(f"{path} is not a readable state file ({error}); move it away to start afresh") from error
    return db


def _migrate(db: sqlite3.Connection, path: Path | None, version: int, schema: str) -> None:
    found = int(db.execute("PRAGMA user_version").fetchone()[0])
    if found > version:
        raise RecomposeError(
            f"{path} has schema version {found}, this recompose reads up to {version}; use a newer one"
        )
    if found == 0:
        db.executescript(f"BEGIN; {schema} PRAGMA user_version = {version}; COMMIT;")


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
