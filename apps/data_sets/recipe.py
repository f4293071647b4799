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
        """Return all parameters, beside the file, that rows depend on, as JSON data; a change recomputes every file."""

    @property
    def index_parameters(self) -> Mapping[str, Any]:
        """Return the parameters that the index depends on beside the rows."""

    @property
    def folder(self) -> Path:
        """Return the default place of the files. Raises: RecomposeError if there is none."""

    def rows(self, path: str, data: bytes) -> list[dict[str, Any]]:
        """The rows of one file, one at least; ``path`` is relative to the folder. Raises: RecomposeError when it cannot
        be used: it is put into the quarantine, with the reason."""

    def write_index(self, rows: Rows, place: Path) -> None:
        """Writes the file that the app opens: of the columns ``path``, ``row`` (number within the file) and the
        recipe's own, sorted by the first two. The same rows must give the same bytes."""


def record_schema(columns: pa.Schema) -> pa.Schema:
    """Return the record of one file. ``rows`` and ``error`` are null if its content is unchanged (``known``)."""
    rows = ("rows", pa.list_(pa.struct(list(columns))))
    return pa.schema([*LISTED, ("sha256", pa.string()), ("error", pa.string()), rows])


TASKS = pa.schema([*LISTED, ("known", pa.string())])
"""A file to process; ``known``: the SHA-256 of the content whose rows exist already."""
