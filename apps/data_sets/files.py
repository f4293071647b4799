"""The files of a data set: in a folder, or in an object store by its URL (s3://, gs://, hdfs://)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import NamedTuple, TypeVar

from pyarrow import fs

from compositions.errors import RecomposeError

T = TypeVar("T")


class Listed(NamedTuple):
    """A file; ``size`` in bytes, ``mtime_ns`` in ns since 1970, where the store tells it (else 0)."""

    path: str
    size: int
    mtime_ns: int


class Place:
    """A folder, or a single file. Picklable: opened anew in every process.

    Raises: RecomposeError when it does not exist or cannot be reached.
    """

    def __init__(self, place: str | Path) -> None:
        self.name = str(place) if "://" in str(place) else str(Path(place).expanduser().absolute())
        self._system, self._root = _opened(self.name)
        info = _asked(self.name, lambda: self._system.get_file_info(self._root))
        if info.type == fs.FileType.NotFound:
            raise RecomposeError(f"{self.name!r} does not exist; give a folder, or the URL of one")
        self._single = info.type == fs.FileType.File

    def __reduce__(self) -> tuple[type[Place], tuple[str]]:
        return Place, (self.name,)

    def list(self, suffixes: frozenset[str]) -> list[Listed]:
        """The files with one of the suffixes, by path. Raises: RecomposeError when there are none."""
        wanted = self._root if self._single else fs.FileSelector(self._root, recursive=True)
        infos = _asked(self.name, lambda: self._system.get_file_info(wanted))
        files = [
            Listed(self._relative(info.path), info.size, info.mtime_ns or 0)
            for info in ([infos] if self._single else infos)
            if info.type == fs.FileType.File and f".{info.extension.lower()}" in suffixes
        ]
        if not files:
            known = ", ".join(sorted(suffixes))
            raise RecomposeError(f"{self.name!r} has no files of a data set; those that end in {known} count")
        return sorted(files)

    def skipped(self, suffixes: frozenset[str]) -> tuple[str, ...]:
        """Files that ``list`` leaves out, by path."""
        if self._single:
            return ()
        infos = _asked(self.name, lambda: self._system.get_file_info(fs.FileSelector(self._root, recursive=True)))
        files = [info for info in infos if info.type == fs.FileType.File]
        return tuple(
            sorted(self._relative(each.path) for each in files if f".{each.extension.lower()}" not in suffixes)
        )

    def read(self, path: str) -> bytes:
        """Raises: OSError."""
        place = self._root if self._single else f"{self._root}/{path}"
        with self._system.open_input_stream(place) as file:
            data: bytes = file.read()
            return data

    def _relative(self, path: str) -> str:
        return PurePosixPath(path).name if self._single else PurePosixPath(path).relative_to(self._root).as_posix()


def _opened(name: str) -> tuple[fs.FileSystem, str]:
    if "://" not in name:
        return fs.LocalFileSystem(), name
    opened: tuple[fs.FileSystem, str] = _asked(name, lambda: fs.FileSystem.from_uri(name))
    return opened[0], opened[1].rstrip("/")


def _asked(name: str, question: Callable[[], T]) -> T:
    try:
        return question()
    except (OSError, ValueError) as error:  # pyarrow's own errors are among these
        raise RecomposeError(f"{name!r} cannot be read: {str(error).splitlines()[0]}") from error
