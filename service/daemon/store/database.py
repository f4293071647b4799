"""The file that survives a restart: SQLite in the state directory, for one daemon, consistent after a kill."""

import fcntl
import os
import shutil
import sqlite3
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import structlog

from compositions.errors import RecomposeError
from service.schemas.refusals import DiskFullError, NotStoredError

FILE = "recompose.sqlite"
LOCK = "lock"
PRIVATE = 0o600
PAGE_BYTES = 4096
LEAST_BYTES = 64 * PAGE_BYTES
"""Minimum free space on the disk, in bytes; with less, the state cannot be stored, or not for long."""
log = structlog.get_logger()


def default_directory() -> Path:
    """The user's state directory (XDG base directories: ``$XDG_STATE_HOME``, else ``~/.local/state``)."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "recompose"


class Database:
    """Thread-safe. ``directory`` None keeps everything in memory, for tests. ``schema`` creates the tables of a new
    file. Raises: RecomposeError if the directory is unusable or another daemon's, or its file has another version."""

    def __init__(self, directory: Path | None, version: int, schema: str) -> None:
        self._lock = threading.Lock()
        self._directory, self._where = directory, str(directory) if directory else "memory"
        self._writes = True
        """Result of the last attempt to write."""
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

    def trouble(self) -> str | None:
        """Return why nothing can be written now; None: an attempt succeeds, and there is enough space."""
        if not self._writes:
            try:
                with self.writing() as db:
                    db.execute("INSERT OR REPLACE INTO meta VALUES ('tried', ?)", (os.urandom(2 * PAGE_BYTES).hex(),))
                    db.execute("DELETE FROM meta WHERE key = 'tried'")
            except NotStoredError as error:
                why = "no room" if isinstance(error, DiskFullError) else "see the log"
                return f"the state cannot be stored: {why}"
        free = _free_bytes(self._directory)
        return None if free is None or free >= LEAST_BYTES else "the state cannot be stored: no room on its disk"

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Run one transaction. Raises: NotStoredError, as DiskFullError if the disk is full; then it is rolled back."""
        try:
            with self._lock, self._db:
                yield self._db
        except sqlite3.DatabaseError as error:
            raise self._not_stored(error) from error
        if not self._writes:
            self._writes = True
            log.info("state file written again", directory=self._where)

    def _not_stored(self, error: sqlite3.DatabaseError) -> NotStoredError:
        if self._writes:  # repeated attempts are logged once
            self._writes = False
            log.warning("state file not written", directory=self._where, error=str(error))
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
            return DiskFullError(f"the disk of {self._where} is full: nothing was changed; free some and try again")
        return NotStoredError(f"the state file in {self._where} cannot be written ({error}): nothing was changed")


def _free_bytes(directory: Path | None) -> int | None:
    """Return the free bytes of the disk; None if the state is not on a disk, or if they are unknown."""
    with suppress(OSError):
        return None if directory is None else shutil.disk_usage(directory).free
    return None


def _open(path: Path | None, version: int, schema: str) -> sqlite3.Connection:
    if path is not None:
        path.touch(mode=PRIVATE)  # SQLite would create it with the mode of the umask; its log gets the mode of the file
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
        has = f"{path} has schema version {found}"
        raise RecomposeError(f"{has}; this version reads up to {version}; install a newer one")
    if found == 0:
        db.executescript(f"BEGIN; {schema} PRAGMA user_version = {version}; COMMIT;")


def _claim(directory: Path) -> int:
    """Lock the directory for this process; the lock ends with the process, in any case."""
    try:
        make_private(directory)
        handle = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT, PRIVATE)
    except OSError as error:
        raise RecomposeError(f"state directory {directory} cannot be used: {error.strerror}") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        raise RecomposeError(f"state directory {directory} is in use by another recompose; give --state DIR") from error
    return handle


OURS = ("lock", "recompose.sqlite*", "telemetry", "telemetry/**/*")
"""Names of the service's own files; other files in the folder stay unchanged."""


def make_private(directory: Path) -> None:
    """Make the folder, and remove others' rights that an earlier version left. Raises: OSError."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if directory.stat().st_mode & stat.S_ISVTX:
        log.warning("other users may read the state", path=str(directory), error="a folder of all users")
    else:
        _restrict(directory)
    for pattern in OURS:
        for path in directory.glob(pattern):
            _restrict(path)


def _restrict(path: Path) -> None:
    mode = 0o700 if path.is_dir() else 0o600
    try:
        if stat.S_IMODE(path.lstat().st_mode) != mode and not path.is_symlink():
            path.chmod(mode)
    except FileNotFoundError:
        return  # a file of telemetry that was removed meanwhile
    except PermissionError as error:  # a volume of another owner, who decides
        log.warning("other users may read the state", path=str(path), error=error.strerror)
