"""The recipe that an app supplies for its data set; everything else in this package is the same for all apps."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from apps.data_sets.rows import LISTED, Rows


class Recipe(Protocol):
    """The functions that make rows of features from files, and an index from rows."""

    kind: str
    """Of the data sets it makes; apps that share a kind share them."""
    suffixes: frozenset[str]
    """Of the files that count, in lower case."""
    columns: pa.Schema
    """Of a row."""

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Return what rows depend on besides the file, as JSON data: when it changes, every file is computed anew."""

    @property
    def index_parameters(self) -> Mapping[str, Any]:
        """Return what the index depends on besides the rows."""

    @property
    def folder(self) -> Path:
        """Return where the files are when the user names no place. Raises: RecomposeError when there is none."""

    def rows(self, path: str, data: bytes) -> list[dict[str, Any]]:
        """The rows of one file, one at least; ``path`` is relative to the folder. Raises: RecomposeError when it cannot
        be used: it is put into the quarantine, with the reason."""

    def write_index(self, rows: Rows, place: Path) -> None:
        """Writes the file that the app opens: of the columns ``path``, ``row`` (number within the file) and the
        recipe's own, sorted by the first two. The same rows must give the same bytes."""


def record_schema(columns: pa.Schema) -> pa.Schema:
    """Return what is found out about one file. ``rows`` and ``error`` are null where it is what was ``known``."""
    rows = ("rows", pa.list_(pa.struct(list(columns))))
    return pa.schema([*LISTED, ("sha256", pa.string()), ("error", pa.string()), rows])


TASKS = pa.schema([*LISTED, ("known", pa.string())])
"""A file to look at; ``known`` is its SHA-256 when its rows are there."""
