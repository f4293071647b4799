"""A folder that fills: JSON lines, CSV and Parquet, an item a line or row, on this machine or in an object store.

A file is read when it is there under its name (write it aside, then rename it); those whose name begins with ``.`` or
``_`` are left alone. Files are read in the order of their names, each once; one that grew is read on.
"""

from __future__ import annotations

import io
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.fs
import pyarrow.parquet

from apps.input.fed import Message, without_user
from apps.input.positions import Position
from compositions.errors import RecomposeError

LINES = (".jsonl", ".ndjson", ".json")
KINDS = (*LINES, ".csv", ".parquet")
TAIL_BYTES = 64 * 1024
"""Looked through at once for the end of a line."""
LOOK_EVERY_S = 1.0
"""Between two looks at a folder that had nothing new."""


class FolderFeed:
    """``endless``: waits for more files. A position is how many rows of a file are done, and how large it was when all
    were.

    Raises: RecomposeError for a folder that is not there.
    """

    def __init__(self, path: str, *, endless: bool) -> None:
        self._endless = endless
        shown = without_user(path) if "://" in path else path
        try:
            self._folder: str
            self._files, self._folder = pyarrow.fs.FileSystem.from_uri(path) if "://" in path else _local(path)
            kind = self._files.get_file_info(self._folder).type
        except (OSError, ValueError, pa.ArrowException) as error:
            raise RecomposeError(f"folder {shown!r} cannot be read: {str(error).replace(path, shown)}") from None
        if kind is not pyarrow.fs.FileType.Directory:
            raise RecomposeError(f"source path {shown!r} is no folder; give one with {', '.join(KINDS)} files")
        self._done: dict[str, tuple[int, int]] = {}
        self._rows: Iterator[Message] = iter(())
        self._look_at_s = 0.0
        self.ended = False

    def seek(self, positions: Mapping[str, Position]) -> None:
        self._done = {name: position for name, position in positions.items() if isinstance(position, tuple)}
        self._rows = iter(())

    def poll(self, most: int, wait_s: float) -> Sequence[Message]:
        messages = list(islice(self._rows, most))
        if messages:
            return messages
        if time.monotonic() < self._look_at_s:
            time.sleep(wait_s)
            return []
        self._rows = self._unread()
        messages = list(islice(self._rows, most))
        if not messages:
            self.ended = not self._endless
            if self._endless:
                self._look_at_s = time.monotonic() + LOOK_EVERY_S
        return messages

    def commit(self, positions: Mapping[str, Position]) -> None:
        """A folder forgets nothing."""

    def close(self) -> None: ...

    def _unread(self) -> Iterator[Message]:
        files = filter(_is_ours, self._files.get_file_info(pyarrow.fs.FileSelector(self._folder)))
        for file in sorted(files, key=lambda each: each.base_name):
            rows, size = self._done.get(file.base_name, (0, 0))
            if size != file.size:
                yield from self._rest(file, rows)

    def _rest(self, file: pyarrow.fs.FileInfo, rows: int) -> Iterator[Message]:
        """From that row on; the last one says that the file is done."""
        number = rows - 1
        for number, (row, last) in enumerate(_with_last(islice(self._read(file), rows, None)), rows):
            yield Message(file.base_name, (number + 1, file.size if last else 0), row)
        self._done[file.base_name] = number + 1, file.size

    def _read(self, file: pyarrow.fs.FileInfo) -> Iterator[Any]:
        """A line that is no JSON is given as it is: whoever makes an item of it says what is wrong. One without an end,
        of JSON or CSV, is not there yet while more may come."""
        try:
            if file.extension in ("csv", "parquet"):
                yield from self._table(file)
                return
            with self._files.open_input_stream(file.path) as stream:
                for line in io.BufferedReader(stream):
                    if line.strip() and (line.endswith(b"\n") or not self._endless):
                        yield line.strip()
        except pa.ArrowException as error:
            raise RecomposeError(f"{file.path} cannot be read: {error}") from error

    def _table(self, file: pyarrow.fs.FileInfo) -> Iterator[Any]:
        with self._files.open_input_file(file.path) as stream:
            if file.extension == "csv":
                end = _end_of_lines(stream) if self._endless else stream.size()
                for batch in pyarrow.csv.open_csv(stream.get_stream(0, end)) if end else ():
                    yield from batch.to_pylist()
            else:
                for batch in pyarrow.parquet.ParquetFile(stream).iter_batches():
                    yield from batch.to_pylist()


def _local(path: str) -> tuple[pyarrow.fs.FileSystem, str]:
    return pyarrow.fs.LocalFileSystem(), path


def _end_of_lines(stream: pa.NativeFile) -> int:
    """Bytes up to the end of the last line that has one."""
    end = int(stream.size())
    while end > 0:
        begin = max(0, end - TAIL_BYTES)
        found = stream.read_at(end - begin, begin).rfind(b"\n")
        if found >= 0:
            return begin + int(found) + 1
        end = begin
    return 0


def _is_ours(file: pyarrow.fs.FileInfo) -> bool:
    name = file.base_name
    return file.is_file and not name.startswith((".", "_")) and name.endswith(KINDS)


def _with_last(rows: Iterator[Any]) -> Iterator[tuple[Any, bool]]:
    """Each, and whether it is the last one."""
    none = object()
    before = next(rows, none)
    for row in rows:
        yield before, False
        before = row
    if before is not none:
        yield before, True
