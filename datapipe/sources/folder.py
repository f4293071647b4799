"""A folder as a source: JSON lines, CSV and Parquet, one item per line or row, on this machine or in an object store.

A file is read as soon as its name exists (so write it under another name, then rename it). Names that begin with ``.``
or ``_`` are ignored. Files are read in the order of their names, each once; a file that grew is read on from its former
end. The record of a file is dropped when the file is removed.
"""

import csv
import io
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet

from compositions.errors import RecomposeError
from compositions.wording import without_user
from datapipe.sources.fed import Message, check_options
from datapipe.sources.portions import Position

LINES = (".jsonl", ".ndjson", ".json")
KINDS = (*LINES, ".csv", ".parquet")
READ_BYTES = 256 * 1024
"""Bytes per read of a file: in an object store each read is a request."""
CELL_BYTES = 1 << 20
"""Maximum size of a CSV cell, in bytes. An unclosed quote ends there, and the row is refused."""
LOOK_EVERY_S, LOOK_SHARE = 1.0, 0.1
"""Minimum interval of listing a folder without new files, and maximum fraction of the time spent on listing."""
csv.field_size_limit(CELL_BYTES)


class Done(NamedTuple):
    """The position in a file: how far it was read."""

    rows: int = 0
    size: int = 0
    """Size of the file if it was read to its end, else 0."""
    offset: int = 0
    """Byte offset of the next row in a file of lines. 0, as of an earlier version: skip ``rows`` rows."""


Read = tuple[Any, int]
"""A row, and the offset of the next row."""


class FolderFeed:
    """A feed that reads the files of a folder. ``endless``: wait for more files. Option ``types``: types of CSV
    columns. Raises: RecomposeError if the folder does not exist, or for an unknown option or type."""

    def __init__(self, path: str, options: Mapping[str, Any] = {}, *, endless: bool) -> None:
        self._endless, self._types = endless, _types(options)
        shown = without_user(path) if "://" in path else path
        try:
            self._folder: str
            here = pyarrow.fs.LocalFileSystem(), path
            self._files, self._folder = pyarrow.fs.FileSystem.from_uri(path) if "://" in path else here
            kind = self._files.get_file_info(self._folder).type
        except (OSError, ValueError, pa.ArrowException) as error:
            raise RecomposeError(f"folder {shown!r} cannot be read: {str(error).replace(path, shown)}") from None
        if kind is not pyarrow.fs.FileType.Directory:
            raise RecomposeError(f"source path {shown!r} is not a folder; give a folder with {', '.join(KINDS)} files")
        self._done: dict[str, Done] = {}
        self._messages: Iterator[Message] = iter(())
        self._look_at_s = 0.0
        self.ended = False

    def seek(self, positions: Mapping[str, Position]) -> None:
        self._done = {name: Done(*position) for name, position in positions.items() if isinstance(position, tuple)}
        self._messages = iter(())

    def poll(self, most: int, wait_s: float) -> Sequence[Message]:
        messages = list(islice(self._messages, most))
        if messages:
            return messages
        began_s = time.monotonic()
        if began_s < self._look_at_s:
            time.sleep(wait_s)
            return []
        self._messages = self._unread()
        messages = list(islice(self._messages, most))
        if not messages:
            self.ended = not self._endless
            if self._endless:
                now_s = time.monotonic()
                self._look_at_s = now_s + max(LOOK_EVERY_S, (now_s - began_s) / LOOK_SHARE)
        return messages

    def commit(self, positions: Mapping[str, Position]) -> None:
        """Do nothing: a folder keeps no positions."""

    def close(self) -> None: ...

    def _unread(self) -> Iterator[Message]:
        """Read all files that are new or have grown; drop the positions of removed ones, unless there is no file."""
        files = list(filter(_is_ours, self._files.get_file_info(pyarrow.fs.FileSelector(self._folder))))
        for gone in sorted(self._done.keys() - {file.base_name for file in files}) if files else ():
            del self._done[gone]
            yield Message(gone, None, None)
        for file in sorted(files, key=lambda each: each.base_name):
            done = self._done.get(file.base_name, Done())
            if done.size != file.size and done.offset <= file.size:
                yield from self._rest(file, done)

    def _rest(self, file: pyarrow.fs.FileInfo, done: Done) -> Iterator[Message]:
        """Read the rows after ``done``; the position of the last row says that the file is complete."""
        name, (rows, _, offset) = file.base_name, done
        try:
            ahead = self._read(file, done)
            row = next(ahead, None)
            while row is not None:
                (body, offset), row = row, next(ahead, None)
                rows += 1
                yield Message(name, (rows, 0 if row else file.size, offset), body)
        except pa.ArrowException as error:
            raise RecomposeError(f"{file.path} cannot be read: {error}") from error
        self._done[name] = Done(rows, file.size, offset)

    def _read(self, file: pyarrow.fs.FileInfo, done: Done) -> Iterator[Read]:
        with self._files.open_input_file(file.path) as stream:
            if file.extension == "parquet":
                return (yield from _rows_of_parquet(stream, done.rows))
            with io.BufferedReader(stream, READ_BYTES) as opened:
                lines = Lines(opened, self._endless)
                rows = _rows_of_csv(lines, done, self._types) if file.extension == "csv" else _rows_of_json(lines, done)
                yield from rows if done.offset else islice(rows, done.rows, None)


class Lines:
    """Reads the lines of a file. A last line without a newline is not returned while the file may grow."""

    def __init__(self, file: io.BufferedReader, may_grow: bool) -> None:
        self._file, self.may_grow = file, may_grow
        self.behind = 0
        """The offset after the last line that was returned."""

    def begin(self, offset: int) -> Iterator[bytes]:
        """Return the lines from ``offset`` on."""
        self._file.seek(offset)
        self.behind = offset
        for line in self._file:
            if line.endswith(b"\n") or not self.may_grow:
                self.behind += len(line)
                yield line


def _rows_of_json(lines: Lines, done: Done) -> Iterator[Read]:
    """Return the rows of a file of JSON lines, unparsed: a line that is not JSON fails only its own item."""
    for line in lines.begin(done.offset):
        if text := line.strip():
            yield text, lines.behind


def _rows_of_csv(lines: Lines, done: Done, types: Mapping[str, str]) -> Iterator[Read]:
    """Return each row as an object, or as an error if it does not match the header."""
    header = next(_cells(lines, 0), [])
    if isinstance(header, ValueError):
        raise RecomposeError(f"the first row of a CSV file has to name its columns: {header}")
    columns = [_column(cell, types) for cell in header]
    names = [column.name for column in columns]
    typed = [column for column in columns if column.type != "text"]
    for cells in _cells(lines, max(done.offset, lines.behind)) if columns else ():
        if isinstance(cells, ValueError):
            yield cells, lines.behind
        elif len(cells) != len(names):
            yield ValueError(f"the row has {len(cells)} cells; the header has {len(names)}"), lines.behind
        else:
            row = dict(zip(names, cells, strict=True))
            yield _converted(row, typed) if typed else row, lines.behind


def _cells(lines: Lines, offset: int) -> Iterator[list[str] | ValueError]:
    """Return the cells of each row, without an incomplete last row while the file may grow."""
    over, text = False, True

    def texts() -> Iterator[str]:
        nonlocal over, text
        for line in lines.begin(offset):
            try:
                yield line.decode()
            except UnicodeDecodeError:
                text = False
                yield line.decode(errors="replace")
        over = True

    reader = csv.reader(texts())
    while True:
        try:
            cells = next(reader, None)
        except csv.Error as error:
            yield ValueError(f"the row is not valid CSV: {error}")
            continue
        if cells is None or (over and lines.may_grow):
            return
        if over:
            yield ValueError("the row is not valid CSV: the file ends within quotes")
        elif not text:
            yield ValueError("the row is not valid CSV: it is not UTF-8")
        elif cells:
            yield cells
        text = True


class Column(NamedTuple):
    name: str
    type: str
    convert: Callable[[str], Any]


BOOLS = {"true": True, "false": False}
TYPES: Mapping[str, Callable[[str], Any]] = {
    **{"text": str, "int": int, "float": float},
    "bool": lambda cell: BOOLS[cell.lower()],
}
"""Types of CSV columns. An empty cell is ``None`` unless its column is text."""


def _types(options: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the option ``types``, written as in a header: the type of each column by name. Raises: RecomposeError."""
    check_options("source folder", options, ("types",))
    types = {}
    for each in filter(None, str(options.get("types", "")).split(",")):
        name, _, kind = each.rpartition(":")
        if kind not in TYPES or not name:
            raise RecomposeError(
                f"option types of source folder has {each!r}; "
                f"give NAME:TYPE,… with {', '.join(TYPES)}, such as count:int"
            )
        types[name] = kind
    return types


def _column(cell: str, types: Mapping[str, str]) -> Column:
    """Return the column that a header cell describes: a name, or ``NAME:TYPE``."""
    cell = cell.removeprefix("\ufeff")
    name, _, kind = cell.rpartition(":")
    if kind not in TYPES or not name:
        name, kind = cell, "text"
    kind = types.get(name, kind)
    return Column(name, kind, TYPES[kind])


def _converted(row: dict[str, Any], typed: Sequence[Column]) -> dict[str, Any] | ValueError:
    for name, kind, convert in typed:
        cell = row[name]
        try:
            row[name] = convert(cell) if cell else None
        except (ValueError, KeyError):
            return ValueError(f"column {name!r} is {cell[:100]!r}; its type is {kind}")
    return row


def _rows_of_parquet(stream: pa.NativeFile, done: int) -> Iterator[Read]:
    for batch in pyarrow.parquet.ParquetFile(stream).iter_batches():
        for row in batch.slice(done).to_pylist():
            yield row, 0
        done = max(0, done - batch.num_rows)


def _is_ours(file: pyarrow.fs.FileInfo) -> bool:
    try:
        name = file.base_name
    except UnicodeDecodeError:  # such a name can be neither shown nor stored: skip it
        return False
    return file.is_file and not name.startswith((".", "_")) and name.endswith(KINDS)
