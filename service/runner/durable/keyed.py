"""States of keys in a journal: a log of changes, with few records per commit, each with the states of many keys.

A row per key was slow: with random keys, each changed row was on its own page, and each page was written twice. The log
stores changes side by side. It stays short: valid entries of its oldest records move into the newest record, and the
oldest records are deleted, until at most half of all entries are outdated.
"""

import sqlite3
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

from runtime.dispatch.checkpoint import StageStates
from runtime.dispatch.keys import KeyStates
from service.runner.durable.journal_file import portions, written
from service.runner.durable.values import mark, sealed, unsealed

SPARE = 1000
"""Number of entries that may be outdated however few keys there are."""


class _Record(NamedTuple):
    number: int
    stage: str
    entries: int

    @property
    def mark(self) -> int:
        return mark(self.number, self.stage)


class _Change(NamedTuple):
    """The changes of one transaction to the log."""

    written: Sequence[tuple[_Record, KeyStates]]
    deleted: int
    """Number of oldest records that are deleted."""


_NOTHING = _Change([], 0)


class KeyedLog:
    """The states by key of all stages. A ``put`` or ``load`` takes effect with ``note``, after its transaction."""

    def __init__(self) -> None:
        self._records: deque[_Record] = deque()
        self._last: dict[str, dict[Any, int]] = {}
        """By stage and key: the record with the latest state of the key. Forgotten keys are absent."""
        self._entries = 0
        self._change = _NOTHING
        self._next = 0
        self._mark = 0

    def load(self, db: sqlite3.Connection) -> dict[str, dict[Any, bytes]]:
        """Return all states, by stage. Raises: Damaged."""
        self._take_over_rows(db)
        found: dict[str, dict[Any, bytes]] = {}
        for number, stage, body in db.execute("SELECT number, stage, body FROM keyed_log ORDER BY number"):
            states = unsealed(body)
            self._note(_Record(number, stage, len(states)), states)
            mine = found.setdefault(stage, {})
            for key, state in states.items():
                if state is None:
                    mine.pop(key, None)
                else:
                    mine[key] = state
        return found

    def put(self, db: sqlite3.Connection, changed: StageStates) -> None:
        """Store states by stage and partition; the partition is not stored, as an app may get more of them later."""
        if not changed:
            return
        new = {
            stage: {key: state for states in parts.values() for key, state in states.items()}
            for stage, parts in changed.items()
        }
        left, deleted = self._valid(db, new)
        number = self._next
        made = []
        for stage, states in chain(_portions(left), _portions(new)):
            row = number, stage, sealed(states)
            what = f"the state of a key of stage {stage}" if len(states) == 1 else f"states of keys of stage {stage}"
            written(db, "INSERT INTO keyed_log VALUES (?, ?, ?)", row, what)
            made.append((_Record(number, stage, len(states)), states))
            number += 1
        self._change = _Change(made, deleted)

    @property
    def mark(self) -> int:
        """Return the mark of all records after the last ``put`` is stored."""
        marked = self._mark
        for record in chain(islice(self._records, self._change.deleted), (each for each, _ in self._change.written)):
            marked ^= record.mark
        return marked

    def note(self) -> None:
        """Record that the last ``put`` is stored."""
        (written, deleted), self._change = self._change, _NOTHING
        for _ in range(deleted):
            oldest = self._records.popleft()
            self._entries -= oldest.entries
            self._mark ^= oldest.mark
        for record, states in written:
            self._note(record, states)

    def _valid(self, db: sqlite3.Connection, new: Mapping[str, KeyStates]) -> tuple[dict[str, dict[Any, Any]], int]:
        """Delete the oldest records if the log would be too long with ``new``; return their valid states and their
        number. As nothing is older, entries about forgotten keys can be dropped."""
        known = sum(map(len, self._last.values()))
        for stage, states in new.items():
            mine = self._last.get(stage, {})
            known += sum(state is not None and key not in mine for key, state in states.items())
        too_many = self._entries + sum(map(len, new.values())) - SPARE - 2 * known
        left: dict[str, dict[Any, Any]] = {}
        deleted = 0
        for number, stage, entries in self._records:
            if too_many <= 0:
                break
            (body,) = db.execute("SELECT body FROM keyed_log WHERE number = ?", (number,)).fetchone()
            db.execute("DELETE FROM keyed_log WHERE number = ?", (number,))
            last, changed, states = self._last[stage], new.get(stage, {}), unsealed(body).items()
            valid = {key: state for key, state in states if last.get(key) == number and key not in changed}
            left.setdefault(stage, {}).update(valid)
            too_many += len(valid) - entries
            deleted += 1
        return left, deleted

    def _note(self, record: _Record, states: KeyStates) -> None:
        self._records.append(record)
        self._entries += record.entries
        self._mark ^= record.mark
        self._next = record.number + 1
        last = self._last.setdefault(record.stage, {})
        last.update(dict.fromkeys(states, record.number))
        for key in [key for key, state in states.items() if state is None]:
            del last[key]

    def _take_over_rows(self, db: sqlite3.Connection) -> None:
        """Move the states of a journal without a log into the log."""
        rows: dict[str, dict[Any, bytes]] = {}
        for stage, body in db.execute("SELECT stage, body FROM keyed"):
            key, state = unsealed(body)
            rows.setdefault(stage, {})[key] = state
        for number, (stage, states) in enumerate(_portions(rows)):
            db.execute("INSERT INTO keyed_log VALUES (?, ?, ?)", (number, stage, sealed(states)))
        db.execute("DELETE FROM keyed")


def _portions(states: Mapping[str, Mapping[Any, Any]]) -> Iterator[tuple[str, dict[Any, Any]]]:
    """Yield a portion for each record."""
    for stage, every in states.items():
        for portion in portions(every.items(), lambda each: len(each[1] or b"")):
            yield stage, dict(portion)
