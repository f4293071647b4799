"""The journal of one run: what was pushed, how far the run has come, what left. One file (``journal_file``)."""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from functools import reduce
from operator import xor
from pathlib import Path
from typing import Any

from runtime.dispatch.checkpoint import Checkpoint
from service.running.durable.journal_file import JournalFile, check, damaged
from service.running.durable.keyed import KeyedLog
from service.running.durable.sealed import Damaged, mark, sealed, unsealed
from service.running.durable.values import Commit, Left, Pushed, Resumption

KEPT_RESULTS = 2000
"""At least so many of the latest results stay, where results are kept: as many as the window of the API."""


_UNKNOWN = object()
"""Is no state."""


class Records:
    """Of one table: each stands for some serial numbers in a row; the oldest go first."""

    def __init__(self, table: str, extent: Callable[[Any], tuple[int, int]]) -> None:
        """``extent``: first serial number of a record's body, and how many it stands for."""
        self._table, self._extent = table, extent
        self._known: deque[tuple[int, int]] = deque()
        """First serial number, and how many."""

    def load(self, db: sqlite3.Connection) -> list[Any]:
        """All, the oldest first. Raises: Damaged."""
        rows = db.execute(f"SELECT first, count, body FROM {self._table} ORDER BY first").fetchall()
        self._known = deque((first, count) for first, count, _ in rows)
        bodies = [unsealed(body) for _, _, body in rows]
        if [self._extent(body) for body in bodies] != list(self._known):
            raise Damaged("a record stands for other items than when it was written")
        return bodies

    def add(self, db: sqlite3.Connection, first: int, count: int, body: Any) -> None:
        db.execute(f"INSERT INTO {self._table} VALUES (?, ?, ?)", (first, count, sealed(body)))

    def note(self, first: int, count: int) -> None:
        """It was stored."""
        self._known.append((first, count))

    def forget(self, db: sqlite3.Connection, before: int) -> None:
        """Those of which all serial numbers are below ``before``."""
        oldest = next((first for first, count in self._known if first + count > before), before)
        if self._known and self._known[0][0] < oldest:
            db.execute(f"DELETE FROM {self._table} WHERE first < ?", (oldest,))

    def forgot(self, before: int) -> None:
        """That was stored."""
        while self._known and sum(self._known[0]) <= before:
            self._known.popleft()


class Journal:
    """One thread at a time. Raises: as :class:`JournalFile`."""

    def __init__(self, path: Path, run: str, epoch: int, *, sync: bool = True) -> None:
        self._file = JournalFile(path, run, epoch, sync=sync)
        self._pushed, self._results, self._keyed = (
            Records("pushed", _of_pushed),
            Records("result", _of_left),
            KeyedLog(),
        )
        self._states: Mapping[str, Any] = {}
        """As this journal stored them last."""
        self._stages: frozenset[str] = frozenset()
        """Of which a state is stored."""
        try:
            with self._file.taking_over() as db:
                self.found = self._load(db)
        except BaseException as error:
            self._file.close()
            if isinstance(error, Damaged):
                raise damaged(path, str(error)) from error
            raise

    def _load(self, db: sqlite3.Connection) -> Resumption:
        left = tuple(Left(*each) for record in self._results.load(db) for each in record)
        pushed = tuple(Pushed(*each) for each in self._pushed.load(db))
        row = db.execute("SELECT body FROM progress").fetchone()
        if row is None:
            return Resumption(pushed=pushed)
        delivered, failed, shed, positions, wanted, marked = _progress(row[0])
        states = {stage: unsealed(body) for stage, body in db.execute("SELECT stage, body FROM state")}
        keyed, self._stages = self._keyed.load(db), frozenset(states)
        if marked is not None and marked != self._mark(self._stages):
            raise Damaged("a state stands under another stage's name than when it was written")
        point = Checkpoint(delivered, failed, shed, states)
        return Resumption(point, positions, left, pushed, wanted, keyed)

    def _mark(self, stages: Iterable[str]) -> int:
        """Of whose the states are that are stored."""
        return reduce(xor, map(mark, stages), self._keyed.mark)

    def store(self, commit: Commit | None, pushed: Iterable[Pushed] = ()) -> None:
        """All of it or nothing; with neither, whether anything can be. Raises: Fenced; NotNow."""
        pushed = tuple(pushed)
        with self._file.writing() as db:
            for each in pushed:
                self._pushed.add(db, each.first, len(each.values), (each.first, each.values))
            if commit is not None:
                self._put(db, commit)
            elif not pushed:
                db.execute("UPDATE holder SET epoch = epoch")  # writes a page and changes nothing
        for each in pushed:
            self._pushed.note(each.first, len(each.values))
        if commit is not None:
            self._note(commit)

    def close(self) -> None:
        self._file.close()

    def _put(self, db: sqlite3.Connection, commit: Commit) -> None:
        point = commit.checkpoint
        for stage, state in point.states.items():
            if self._states.get(stage, _UNKNOWN) is not state:
                db.execute("INSERT OR REPLACE INTO state VALUES (?, ?)", (stage, sealed(state)))
        self._keyed.put(db, point.keyed)
        marked = self._mark(self._stages | point.states.keys())
        progress = point.delivered, point.failed, point.shed, dict(commit.positions), commit.wanted, marked
        db.execute("INSERT OR REPLACE INTO progress VALUES (1, ?)", (sealed(progress),))
        self._pushed.forget(db, point.next_serial)
        if commit.left:
            first, count = _extent(commit)
            self._results.add(db, first, count, [tuple(each) for each in commit.left])
            self._results.forget(db, _forgotten(commit))

    def _note(self, commit: Commit) -> None:
        self._states = commit.checkpoint.states
        self._stages |= self._states.keys()
        self._keyed.note()
        self._pushed.forgot(commit.checkpoint.next_serial)
        if commit.left:
            first, count = _extent(commit)
            self._results.note(first, count)
            self._results.forgot(_forgotten(commit))


def owed(path: Path) -> str | None:
    """What of an ended run went nowhere; None: nothing, and all of it can be read.

    Raises: sqlite3.Error, Damaged, RecomposeError for what cannot be, as what a later version wrote.
    """
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as db:
        if db.execute("SELECT count(*) FROM pushed").fetchone()[0]:
            return "items that never left"
        row = db.execute("SELECT body FROM progress").fetchone()
        delivered, failed, shed, _, wanted, _ = _progress(row[0]) if row is not None else (0, 0, 0, {}, None, None)
        if wanted is not None and wanted < delivered + failed + shed:
            return "results that its sink never got"
        check(db, path)
        return None


def _progress(body: bytes) -> tuple[int, int, int, Mapping[str, Any], int | None, int | None]:
    """Delivered, failed, shed, positions, wanted, the mark of whose the states are; the last two are not in journals
    from before they were stored."""
    delivered, failed, shed, positions, *rest = unsealed(body)
    wanted, marked = (*rest, None, None)[:2]
    return delivered, failed, shed, positions, wanted, marked


def _extent(commit: Commit) -> tuple[int, int]:
    """Serial numbers of its results."""
    return _of_left(commit.left)


def _of_left(left: Sequence[tuple[Any, ...]]) -> tuple[int, int]:
    """As they are in a record, too."""
    (first, *_), (last, values, *_) = left[0], left[-1]
    return first, last + len(values) - first


def _of_pushed(body: tuple[int, Sequence[Any]]) -> tuple[int, int]:
    first, values = body
    return first, len(values)


def _forgotten(commit: Commit) -> int:
    """Results below need not stay."""
    first, count = _extent(commit)
    latest = first + count - KEPT_RESULTS
    return latest if commit.wanted is None else min(latest, commit.wanted)
