"""The recipe that an app supplies for its data set; everything else in this package is the same for all apps."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from apps.data_sets.rows import LISTED, Rows


class Recipe(Protocol):
    """The functions that make rows of features from files, and an index from rows."""

    kind: str
    """The kind of the data sets; apps with the same kind share data sets."""
    suffixes: frozenset[str]
    """The suffixes of the files to use, in lower case."""
    columns: pa.Schema
    """The schema of a row."""

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Return all parameters besides the file on which rows depend, as JSON data; a change recomputes every file."""

    @property
    def index_parameters(self) -> Mapping[str, Any]:
        """Return the parameters besides the rows on which the index depends."""

    @property
    def folder(self) -> Path:
        """Return the default place of the files. Raises: RecomposeError if there is none."""

    def rows(self, path: str, data: bytes) -> list[dict[str, Any]]:
        """Return the rows of one file, at least one; ``path`` is relative to the folder. Raises: RecomposeError if the
        file is unusable; it then goes into quarantine, with the reason."""

    def write_index(self, rows: Rows, place: Path) -> None:
        """Write the file that the app opens, from the columns ``path``, ``row`` (number within the file) and the
        recipe's own, sorted by the first two. The same rows must give the same bytes."""


def record_schema(columns: pa.Schema) -> pa.Schema:
    """Return the record of one file. ``rows`` and ``error`` are null if its content is unchanged (``known``)."""
    rows = ("rows", pa.list_(pa.struct(list(columns))))
    return pa.schema([*LISTED, ("sha256", pa.string()), ("error", pa.string()), rows])


TASKS = pa.schema([*LISTED, ("known", pa.string())])
"""A file to process; ``known``: the SHA-256 of the content whose rows exist already."""
