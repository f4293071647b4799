"""The file of a journal: SQLite with a write-ahead log, for one epoch at a time. A process that opens it under a higher
epoch excludes earlier ones, because each transaction first checks the epoch."""

import errno
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from compositions.errors import NotNow, RecomposeError
from service.runner.durable.log_check import log_damage

VERSION = 4
"""From version 4 on, the log of changes contains source positions; version 3 does not look for them there."""
TABLES = (
    "CREATE TABLE holder (one INTEGER PRIMARY KEY CHECK (one = 1), run TEXT NOT NULL, epoch INTEGER NOT NULL)",
    "CREATE TABLE progress (one INTEGER PRIMARY KEY CHECK (one = 1), body BLOB NOT NULL)",
    "CREATE TABLE state (stage TEXT PRIMARY KEY, body BLOB NOT NULL)",
    "CREATE TABLE pushed (first INTEGER PRIMARY KEY, count INTEGER NOT NULL, body BLOB NOT NULL)",
    "CREATE TABLE result (first INTEGER PRIMARY KEY, count INTEGER NOT NULL, body BLOB NOT NULL)",
)
ADDED = {
    2: "CREATE TABLE keyed (stage TEXT, key BLOB, body BLOB NOT NULL, PRIMARY KEY (stage, key)) WITHOUT ROWID",
    3: "CREATE TABLE keyed_log (number INTEGER PRIMARY KEY, stage TEXT NOT NULL, body BLOB NOT NULL)",
}
"""Tables that later versions have added."""
FOLDER_MODE, FILE_MODE = 0o700, 0o600
NEVER = (errno.ENOTDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.EINVAL, errno.ELOOP)
"""Errors of the path itself, which stay. A disk may get room again, a file system may become writable again."""
RECORD_BYTES = 1 << 22
"""Maximum size of a record, in bytes: SQLite must take it, and it is copied as a whole in memory."""
WAIT_S = 5.0
"""Maximum wait for another transaction, in seconds; a process that is stopped within one may take longer."""


class Fenced(RecomposeError):  # noqa: N818 - says what happened
    """A later epoch has taken over the run."""


class JournalFile:
    """For one thread at a time. Raises: RecomposeError if the folder cannot be used, or if the file is not a journal of
    this version and run, or is damaged; nothing is overwritten. Fenced if a later epoch has it. NotNow if another
    process locks it, there is no room, or it cannot be written at present."""

    def __init__(self, path: Path, run: str, epoch: int, *, sync: bool = True) -> None:
        """``sync``: a transaction waits for the disk. Without it, a crash of the process loses nothing; a power failure
        may lose the last transactions, but earlier ones stay intact."""
        self.path, self._run, self._epoch = path, run, epoch
        self._synchronous = "FULL" if sync else "NORMAL"
        _prepare(path)
        with self._told():
            self.db = sqlite3.connect(path, timeout=WAIT_S, isolation_level=None, check_same_thread=False)
        self.db.text_factory = bytes.decode  # SQLite itself reports flipped bits in the same way as a lock
        try:
            self._open()
        except BaseException:
            self.db.close()
            raise

    def _open(self) -> None:
        """Open the file. The check comes before SQLite opens it: closing a file here would end SQLite's locks."""
        if _head_of_a_later_sqlite(self.path):
            raise damaged(self.path, "its head says that only a later SQLite may write it")
        how = log_damage(self.path, synced=self._synchronous == "FULL")
        if how is not None:
            raise damaged(self.path, how)
        with self._told(), self._read():
            check(self.db, self.path)
            self.db.execute("PRAGMA journal_mode = WAL")
            self.db.execute(f"PRAGMA synchronous = {self._synchronous}")

    @contextmanager
    def taking_over(self) -> Iterator[sqlite3.Connection]:
        """Run the first transaction, after which the journal belongs to this epoch. Raises: as the class."""
        with self._told(), self._read(), self._transaction():
            self._create()
            self._hold()
            yield self.db

    def _create(self) -> None:
        found = self.db.execute("PRAGMA user_version").fetchone()[0]
        if found == 0:
            for statement in TABLES:
                self.db.execute(statement)
            self.db.execute("INSERT INTO holder VALUES (1, ?, 0)", (self._run,))
        for version, statement in ADDED.items():
            if found < version:
                self.db.execute(statement)
        self.db.execute(f"PRAGMA user_version = {VERSION}")

    def _hold(self) -> None:
        run, epoch = self.db.execute("SELECT run, epoch FROM holder").fetchone()
        if run != self._run:
            raise RecomposeError(f"{self.path} is the journal of run {run!r}, not of {self._run!r}; move it away")
        if epoch >= self._epoch:
            raise self._fenced(epoch)
        self.db.execute("UPDATE holder SET epoch = ?", (self._epoch,))

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Run one transaction, or roll it back. Raises: Fenced; NotNow if it cannot be stored now."""
        with self._told(), self._transaction():
            epoch = self.db.execute("SELECT epoch FROM holder").fetchone()[0]
            if epoch != self._epoch:
                raise self._fenced(epoch)
            yield self.db

    def close(self) -> None:
        self.db.close()

    def _fenced(self, epoch: int) -> Fenced:
        return Fenced(f"runner {epoch} has taken over run {self._run}; runner {self._epoch} may not write any more")

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self.db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.db.execute("COMMIT")
        except BaseException:
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")
            raise

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Translate SQLite's errors into ours."""
        try:
            yield
        except sqlite3.OperationalError as error:
            raise NotNow(f"journal {self.path} cannot be written now: {error}") from error
        except (sqlite3.DataError, sqlite3.ProgrammingError) as error:  # the value is at fault, not the file
            raise RecomposeError(f"journal {self.path} cannot store this: {error}; nothing was changed") from error
        except sqlite3.DatabaseError as error:
            raise damaged(self.path, str(error)) from error

    @contextmanager
    def _read(self) -> Iterator[None]:
        """Translate SQLite's errors while the whole journal is read; a faulty header, table or text is damage."""
        try:
            yield
        except UnicodeDecodeError as error:
            raise damaged(self.path, str(error)) from error
        except sqlite3.OperationalError as error:
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR:
                raise damaged(self.path, str(error)) from error
            raise


T = TypeVar("T")


def portions(things: Iterable[T], size_bytes: Callable[[T], int]) -> Iterator[list[T]]:
    """Divide things into records of up to ``RECORD_BYTES`` with at least one thing each."""
    portion: list[T] = []
    taken_bytes = 0
    for each in things:
        taken_bytes += size_bytes(each)
        if portion and taken_bytes > RECORD_BYTES:
            yield portion
            portion, taken_bytes = [], size_bytes(each)
        portion.append(each)
    if portion:
        yield portion


def written(db: sqlite3.Connection, statement: str, row: Sequence[Any], what: str) -> None:
    """Execute ``statement`` with ``row``, a body last. Raises: RecomposeError if the body ``what`` is too large."""
    try:
        db.execute(statement, row)
    except (sqlite3.DataError, OverflowError) as error:
        most = db.getlimit(sqlite3.SQLITE_LIMIT_LENGTH)
        size = f"{len(row[-1]):,} bytes, and a record of SQLite has at most {most:,}"
        raise RecomposeError(f"{what} is too large for the journal: {size}; nothing was changed") from error


def damaged(path: Path, how: str) -> RecomposeError:
    how_on = f"move it and the files beside it ({path.name}*) away to begin anew"
    return RecomposeError(f"journal {path} is damaged ({how}); nothing was changed, {how_on}")


def _prepare(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
        path.touch(mode=FILE_MODE)  # SQLite would create it with the mode of the umask
    except OSError as error:
        kind = RecomposeError if error.errno in NEVER else NotNow
        raise kind(f"journal folder {path.parent} cannot be written: {error.strerror}") from error


def check(db: sqlite3.Connection, path: Path) -> None:
    """Check the journal. Raises: RecomposeError if it cannot be continued."""
    found = check_version(db, path)
    if {sql for (sql,) in db.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL")} != _tables(found):
        raise damaged(path, "its tables are not those of a journal")
    with closing(db.execute("PRAGMA quick_check(1)")) as answer:
        how = str(answer.fetchone()[0]).splitlines()[-1]
    if how != "ok":
        raise damaged(path, how)


def check_version(db: sqlite3.Connection, path: Path) -> int:
    """Return the version of a journal. Raises: RecomposeError for a version later than ours."""
    found = int(db.execute("PRAGMA user_version").fetchone()[0])
    if found > VERSION:
        has = f"journal {path} has version {found}"
        raise RecomposeError(f"{has}; this version reads up to {VERSION}; install a newer one")
    return found


def _head_of_a_later_sqlite(path: Path) -> bool:
    """Return whether only a later SQLite may write this file (database file format, section 1.3.3)."""
    with path.open("rb") as file:
        return max(file.read(19)[18:], default=0) > 2


def _tables(version: int) -> set[str]:
    """Return the statements of the tables, in which a bit may have flipped too; version 0 is a new file."""
    return {*TABLES, *(statement for since, statement in ADDED.items() if since <= version)} if version else set()
