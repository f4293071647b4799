"""Which files have to be looked at: those that the current version does not know as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from apps.data_sets.files import Listed


class Known(NamedTuple):
    """A file as a version has it; ``sha256`` None when it could not even be read."""

    size: int
    mtime_ns: int
    sha256: str | None


class Task(NamedTuple):
    path: str
    size: int
    mtime_ns: int
    known: str | None


class Plan(NamedTuple):
    """``todo`` in the order of the listing; ``gone`` are paths of the current version that are no longer there."""

    todo: tuple[Task, ...]
    kept: tuple[str, ...]
    gone: tuple[str, ...]


def plan(found: Sequence[Listed], known: Mapping[str, Known]) -> Plan:
    """A file of another size or time is read; whether its content is another, its checksum tells."""
    todo, kept = [], []
    for file in found:
        before = known.get(file.path)
        if before is not None and before.sha256 and (before.size, before.mtime_ns) == (file.size, file.mtime_ns):
            kept.append(file.path)
        else:
            todo.append(Task(*file, known=before.sha256 if before else None))
    gone = sorted(known.keys() - {file.path for file in found})
    return Plan(tuple(todo), tuple(kept), tuple(gone))
