"""States of keys in a journal: a row for each, written when it has changed."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

from apps.keys import written
from runtime.dispatch.events import KeyStates
from service.running.durable.sealed import sealed, unsealed


def put(db: sqlite3.Connection, changed: Mapping[str, Mapping[int, KeyStates]]) -> None:
    """By stage and partition; which partition is not stored, for an app may come to have more of them."""
    for stage, partitions in changed.items():
        for states in partitions.values():
            new = [(stage, written(key), sealed((key, state))) for key, state in states.items() if state is not None]
            gone = [(stage, written(key)) for key, state in states.items() if state is None]
            db.executemany("INSERT OR REPLACE INTO keyed VALUES (?, ?, ?)", new)
            db.executemany("DELETE FROM keyed WHERE stage = ? AND key = ?", gone)


def loaded(db: sqlite3.Connection) -> dict[str, dict[Any, bytes]]:
    """All, by stage. Raises: Damaged."""
    found: dict[str, dict[Any, bytes]] = {}
    for stage, body in db.execute("SELECT stage, body FROM keyed"):
        key, state = unsealed(body)
        found.setdefault(stage, {})[key] = state
    return found
