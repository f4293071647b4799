"""The journal of one run, in one file: pushed items, progress, results that left, and undelivered data."""

import pickle
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import reduce
from operator import xor
from pathlib import Path
from typing import Any

from compositions.errors import RecomposeError
from datapipe.sources.portions import Position
from runtime.dispatch.checkpoint import Checkpoint, StageStates
from service.runner.durable import journal_file
from service.runner.durable.keyed import KeyedLog
from service.runner.durable.values import Commit, Damaged, Left, Pushed, Resumption, loaded, mark, sealed, unsealed

KEPT_RESULTS = 2000
"""Number of latest results that are retained at least, if results are stored: as many as the window of the API."""
_UNKNOWN = object()
SOURCE = ""
"""Name of the source among the stages with keyed state: a partition is a key, and its position is the state."""


class Records:
    """The records of one table. Each describes consecutive serial numbers; the oldest records are deleted first."""

    def __init__(self, table: str, extent: Callable[[Any], tuple[int, int]]) -> None:
        """``extent``: returns the first serial number of a record's body, and the number of serial numbers."""
        self._table, self._extent = table, extent

    def load(self, db: sqlite3.Connection) -> list[Any]:
        """Return all records, the oldest first. Raises: Damaged."""
        rows = db.execute(f"SELECT first, count, body FROM {self._table} ORDER BY first").fetchall()
        bodies = [unsealed(body) for _, _, body in rows]
        if [self._extent(body) for body in bodies] != [(first, count) for first, count, _ in rows]:
            raise Damaged("the serial numbers of a record do not match its items")
        return bodies

    def add(self, db: sqlite3.Connection, first: int, count: int, body: Any) -> None:
        what = f"the record of item {first}" if count == 1 else f"the record of {count} items"
        journal_file.written(db, f"INSERT INTO {self._table} VALUES (?, ?, ?)", (first, count, sealed(body)), what)

    def forget(self, db: sqlite3.Connection, before: int) -> None:
        """Delete the records whose serial numbers are all below ``before``."""
        db.execute(f"DELETE FROM {self._table} WHERE first < ?1 AND first + count <= ?1", (before,))


class Journal:
    """The journal of one run, for one thread at a time. Raises: as :class:`JournalFile`."""

    def __init__(self, path: Path, run: str, epoch: int, *, sync: bool = True) -> None:
        self._file = journal_file.JournalFile(path, run, epoch, sync=sync)
        self._pushed = Records("pushed", lambda body: (body[0], len(body[1])))
        self._results, self._keyed = Records("result", _of_left), KeyedLog()
        self._moving: Mapping[str, Position | None] = {}
        """Positions that an earlier version stored as a whole; the first commit stores them in the present form."""
        self._states: Mapping[str, Any] = {}
        """States, as this journal stored them last."""
        self._stages: frozenset[str] = frozenset()
        """Stages with a stored state."""
        try:
            with self._file.taking_over() as db:
                self.found = self._load(db)
        except BaseException as error:
            self._file.close()
            if isinstance(error, Damaged):
                raise journal_file.damaged(path, str(error)) from error
            raise

    def _load(self, db: sqlite3.Connection) -> Resumption:
        left = tuple(Left(*each) for record in self._results.load(db) for each in record)
        pushed = tuple(Pushed(*each) for each in self._pushed.load(db))
        row = db.execute("SELECT body FROM progress").fetchone()
        if row is None:
            return Resumption(pushed=pushed)
        delivered, failed, shed, self._moving, wanted, marked = progress_of(row[0])
        states = {stage: unsealed(body) for stage, body in db.execute("SELECT stage, body FROM state")}
        keyed, self._stages = self._keyed.load(db), frozenset(states)
        if marked is not None and marked != self._mark(self._stages):
            raise Damaged("the stored states do not match those of the checkpoint")
        point = Checkpoint(delivered, failed, shed, states)
        known = {partition: loaded(at) for partition, at in keyed.pop(SOURCE, {}).items()}
        positions = {partition: at for partition, at in {**self._moving, **known}.items() if at is not None}
        return Resumption(point, positions, left, pushed, wanted, keyed)

    def _mark(self, stages: Iterable[str]) -> int:
        """Return a mark that identifies the owners of the stored states."""
        return reduce(xor, map(mark, stages), self._keyed.mark)

    def store(self, commit: Commit | None, pushed: Iterable[Pushed] = ()) -> None:
        """Store all or nothing; without arguments, check that writing is possible. Raises: Fenced; NotNow."""
        pushed = tuple(pushed)
        with self._file.writing() as db:
            for each in pushed:
                self._pushed.add(db, each.first, len(each.values), (each.first, each.values))
            if commit is not None:
                self._put(db, commit)
            elif not pushed:
                db.execute("UPDATE holder SET epoch = epoch")  # this writes a page and changes nothing
        if commit is not None:
            self._moving, self._states = {}, commit.checkpoint.states
            self._stages |= self._states.keys()
            self._keyed.note()

    def close(self) -> None:
        self._file.close()

    def _put(self, db: sqlite3.Connection, commit: Commit) -> None:
        point = commit.checkpoint
        for stage, state in point.states.items():
            if self._states.get(stage, _UNKNOWN) is not state:
                put, row = "INSERT OR REPLACE INTO state VALUES (?, ?)", (stage, sealed(state))
                journal_file.written(db, put, row, f"the state of stage {stage}")
        self._keyed.put(db, {**point.keyed, **_by_key({**self._moving, **commit.positions})})
        marked = self._mark(self._stages | point.states.keys())
        progress = point.delivered, point.failed, point.shed, dict[str, Position](), commit.wanted, marked
        db.execute("INSERT OR REPLACE INTO progress VALUES (1, ?)", (sealed(progress),))
        self._pushed.forget(db, point.next_serial)
        if commit.left:
            parts = (part for each in commit.left for part in _parts(each))
            for record in journal_file.portions(parts, lambda part: part.size_bytes):
                self._results.add(db, *_of_left(record), [tuple(each) for each in record])
            self._results.forget(db, _forgotten(commit))


def progress_of(body: bytes) -> tuple[int, int, int, Mapping[str, Any], int | None, int | None]:
    """Return delivered, failed, shed, positions, wanted and the states' mark; older journals lack the last two."""
    delivered, failed, shed, positions, *rest = unsealed(body)
    wanted, marked = (*rest, None, None)[:2]
    return delivered, failed, shed, positions, wanted, marked


def _by_key(positions: Mapping[str, Position | None]) -> StageStates:
    """Return the changed positions in the form of changed keyed states."""
    states = {partition: None if at is None else pickle.dumps(at) for partition, at in positions.items()}
    return {SOURCE: {0: states}} if states else {}


def _parts(left: Left) -> Iterator[Left]:
    """Split results into parts no larger than a record may be, estimated by the mean size of their items."""
    most = max(1, len(left.values) * journal_file.RECORD_BYTES // max(1, left.size_bytes))
    if most >= len(left.values):
        yield left
        return
    each_bytes = left.size_bytes // len(left.values)
    for begin in range(0, len(left.values), most):
        values = left.values[begin : begin + most]
        yield Left(left.first + begin, values, left.error, each_bytes * len(values))


def _of_left(left: Sequence[tuple[Any, ...]]) -> tuple[int, int]:
    """Return results in the form of a record."""
    (first, *_), (last, values, *_) = left[0], left[-1]
    return first, last + len(values) - first


def _forgotten(commit: Commit) -> int:
    """Return the serial number below which results need not be retained."""
    first, count = _of_left(commit.left)
    latest = first + count - KEPT_RESULTS
    return latest if commit.wanted is None else min(latest, commit.wanted)


SUFFIX = ".journal"


@dataclass(frozen=True, slots=True)
class Debt:
    """Counts of the data that one run owes, as far as its journal can be read."""

    journal: Path
    run: str
    epoch: int | None = None
    """The epoch of its last runner; None if the journal cannot be read."""
    items: int | None = None
    """The number of items that were acknowledged and not delivered."""
    results: int | None = None
    """The number of results that were delivered and are not in the sink."""
    fault: str | None = None


def journal_path(folder: str, app: str, run: str) -> Path:
    return Path(folder).expanduser().absolute() / app / f"{run}{SUFFIX}"


def debts_of(folder: str, app: str) -> Iterator[Debt]:
    """Yield what the runs of an app owe, the oldest journal first."""
    found = (Path(folder).expanduser().absolute() / app).glob(f"*{SUFFIX}")
    for path in sorted(found, key=lambda each: (_written_s(each), each.name)):
        if (debt := debt_in(path)) is not None:
            yield debt


def debt_in(path: Path, *, whole: bool = False) -> Debt | None:
    """Return what the run of a journal owes, if anything. ``whole``: read all of it, so that any damage is found."""
    if not path.exists():
        return None
    run = path.name.removesuffix(SUFFIX)
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as db:
            if whole:
                journal_file.check(db, path)
            found = _read(db, path, run)
    except (sqlite3.Error, OSError, UnicodeDecodeError, Damaged, RecomposeError) as error:
        return Debt(path, run, fault=str(error))
    return found if found.items or found.results else None


def _read(db: sqlite3.Connection, path: Path, run: str) -> Debt:
    made = journal_file.check_version(db, path) > 0
    holder = db.execute("SELECT epoch FROM holder").fetchone() if made else None
    if holder is None:  # its first runner has not written it yet
        return Debt(path, run, 0, 0, 0)
    row = db.execute("SELECT body FROM progress").fetchone()
    delivered, failed, shed, _, wanted, _ = progress_of(row[0]) if row is not None else (0, 0, 0, {}, None, None)
    out = delivered + failed + shed
    pushed = db.execute("SELECT first, count FROM pushed").fetchall()
    items = sum(max(0, first + count - max(first, out)) for first, count in pushed)
    return Debt(path, run, int(holder[0]), items, 0 if wanted is None else max(0, out - wanted))


def _written_s(path: Path) -> float:
    with suppress(OSError):  # it may have been removed meanwhile
        return path.stat().st_mtime
    return 0.0
