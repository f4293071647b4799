"""A file of results that only ever contains whole records, and that reports when no more can be written."""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from compositions.errors import RecomposeError


class OutputFailed(RecomposeError):  # noqa: N818 - says what happened
    """No further result can be written, for example because the disk is full. This error ends the run, unlike an error
    of a single result."""


class OutputFile:
    """Records, one after the other, up to ``buffer_bytes`` of them waiting for a ``flush``.

    A record that cannot be written completely is removed again, so that a file on a full disk ends with a whole record.
    Raises: RecomposeError if the file cannot be opened; OutputFailed by ``add`` and ``flush``, and from then on.
    """

    def __init__(self, path: str | Path, *, buffer_bytes: int = 0, append: bool = False) -> None:
        self.path = Path(path)
        try:
            # Unbuffered: Python's own buffer would retry a failed write on closing.
            self._file = self.path.open("ab" if append else "wb", buffering=0)
        except OSError as error:
            reason = f"cannot write {str(path)!r}: {error.strerror}; give a file in a folder that exists"
            raise RecomposeError(reason) from error
        self._buffer_bytes = buffer_bytes
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._end = os.fstat(self._file.fileno()).st_size
        """End position of the last whole record."""
        self._failed: OutputFailed | None = None

    def add(self, record: bytes) -> None:
        if self._failed is not None:
            raise self._failed
        self._waiting.append(record)
        self._waiting_bytes += len(record)
        if self._waiting_bytes > self._buffer_bytes:
            self.flush()

    def flush(self) -> None:
        records, self._waiting, self._waiting_bytes = self._waiting, [], 0
        left = memoryview(b"".join(records))
        written = 0
        try:
            while written < len(left):
                written += self._file.write(left[written:])
        except OSError as error:
            self._take_back(records, written)
            self._failed = OutputFailed(
                f"{str(self.path)!r} cannot be written any further: {error.strerror}; "
                f"the first {self._end:,} bytes are intact"
            )
            raise self._failed from error
        self._end += written

    def _take_back(self, records: Iterable[bytes], written: int) -> None:
        """Remove the part of the record that did not fit."""
        for record in records:
            written -= len(record)
            if written < 0:
                break
            self._end += len(record)
        with suppress(OSError):  # a device or a pipe: bytes that it took are gone
            self._file.truncate(self._end)

    def close(self) -> None:
        """Write waiting records, and close the file in any case. Raises: OutputFailed if they do not fit."""
        try:
            if self._failed is None:
                self.flush()
        finally:
            self._file.close()


def sync(*places: str | Path) -> None:
    """Flush a file or folder to the disk, before a rename that makes it valid."""
    for place in places:
        handle = os.open(place, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
