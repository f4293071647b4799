"""Read tables of numbers: CSV with a header, and before it comments ``# key: value``."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from compositions.errors import RecomposeError, shown
from lab.gym.model import Floats


@dataclass(frozen=True, slots=True)
class Table:
    """The content of a table."""

    place: str
    """The file, for error messages."""
    columns: tuple[str, ...]
    values: Floats
    """Values, with a row per line and a column each."""
    comments: tuple[tuple[str, str], ...] = ()

    def column(self, name: str) -> Floats:
        return self.values[:, self.columns.index(name)]


def read_table(path: Path) -> Table:
    """Return a table of finite numbers; a time of day (ISO 8601, UTC if no zone is named) becomes seconds.

    Raises: RecomposeError with one sentence when the file cannot be read or is no such table.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise RecomposeError(f"table {str(path)!r} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise RecomposeError(f"table {str(path)!r} cannot be read: it is no text in UTF-8") from error
    return _parsed(text.splitlines(), str(path))


def _parsed(lines: Iterable[str], place: str) -> Table:
    comments: list[tuple[str, str]] = []
    columns: tuple[str, ...] = ()
    rows: list[list[float]] = []
    for number, line in enumerate(lines, start=1):
        cells = [cell.strip() for cell in line.split(",")]
        if line.startswith("#"):
            key, colon, value = line.lstrip("# ").partition(":")
            comments += [(key.strip(), value.strip())] if colon else []
        elif not columns and line.strip():
            columns = _header(cells, place)
        elif line.strip():
            rows.append(_row(cells, columns, f"line {number} of table {place!r}"))
    if not rows:
        raise RecomposeError(f"table {place!r} has no rows; it needs a header and a row of numbers for each item")
    return Table(place, columns, np.array(rows), tuple(comments))


def _header(cells: list[str], place: str) -> tuple[str, ...]:
    unnamed = [cell for cell in cells if not cell or _number(cell) is not None]
    if unnamed:
        raise RecomposeError(f"table {place!r} has no header: {shown(unnamed[0])} is no name of a column")
    twice = [cell for cell in cells if cells.count(cell) > 1]
    if twice:
        raise RecomposeError(f"table {place!r} has two columns {shown(twice[0])}")
    return tuple(cells)


def _row(cells: list[str], columns: tuple[str, ...], place: str) -> list[float]:
    if len(cells) != len(columns):
        raise RecomposeError(f"{place} has {len(cells)} values; the header has {len(columns)} columns")
    values = [_number(cell) for cell in cells]
    for cell, value, column in zip(cells, values, columns, strict=True):
        if value is None:
            raise RecomposeError(f"{place} has {shown(cell)} in column {column!r}; must be a number or a time")
    return [value for value in values if value is not None]


def _number(cell: str) -> float | None:
    try:
        value = float(cell)
    except ValueError:
        return _time(cell)
    return value if math.isfinite(value) else None


def _time(cell: str) -> float | None:
    try:
        time = datetime.fromisoformat(cell)
    except ValueError:
        return None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
