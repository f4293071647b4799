"""The files of a data set: in a folder, or in an object store by its URL (s3://, gs://, hdfs://)."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
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
        files = [each for each in self._all() if _suffix(each) in suffixes]
        if not files:
            known = ", ".join(sorted(suffixes))
            raise RecomposeError(f"{self.name!r} has no files of a data set; those that end in {known} count")
        return sorted(files)

    def skipped(self, suffixes: frozenset[str]) -> tuple[str, ...]:
        """Files that ``list`` leaves out, by path."""
        if self._single:
            return ()
        return tuple(sorted(each.path for each in self._all() if _suffix(each) not in suffixes))

    def read(self, path: str) -> bytes:
        """Raises: OSError."""
        place = self._root if self._single else f"{self._root}/{path}"
        try:
            with self._system.open_input_stream(place) as file:
                data: bytes = file.read()
                return data
        except FileNotFoundError as error:
            if "\\x" not in path:
                raise
            raise OSError(errno.EILSEQ, "its name is not UTF-8; rename it") from error

    def _all(self) -> tuple[Listed, ...]:
        """Return every file once, in no particular order."""
        if not self._single and isinstance(self._system, fs.LocalFileSystem):
            return _asked(self.name, lambda: tuple(_below(Path(self._root))))
        wanted = self._root if self._single else fs.FileSelector(self._root, recursive=True)
        infos = _asked(self.name, lambda: self._system.get_file_info(wanted))
        return tuple(
            Listed(self._relative(info.path), info.size, info.mtime_ns or 0)
            for info in ([infos] if self._single else infos)
            if info.type == fs.FileType.File
        )

    def _relative(self, path: str) -> str:
        return PurePosixPath(path).name if self._single else PurePosixPath(path).relative_to(self._root).as_posix()


def _suffix(file: Listed) -> str:
    return PurePosixPath(file.path).suffix.lower()


def _below(root: Path) -> Iterator[Listed]:
    """Return the files of a local folder. Links are followed last, and only to files and folders that were not found
    yet. So every file and folder occurs once, and a link to a folder that contains it ends."""
    seen: set[tuple[int, int]] = set()
    paths: list[Path] = [root]
    links: list[Path] = []
    linked = False
    while paths or links:
        linked = linked or not paths
        path = paths.pop() if paths else links.pop()
        try:
            found = path.stat()
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ELOOP):  # a link that leads nowhere
                continue
            raise
        key = found.st_dev, found.st_ino
        if key in seen and (linked or stat.S_ISDIR(found.st_mode)):  # a file may have two names without a link
            continue
        seen.add(key)
        if stat.S_ISDIR(found.st_mode):
            for each in os.scandir(path):
                (links if each.is_symlink() else paths).append(Path(each.path))
            links.sort(reverse=True)
        elif stat.S_ISREG(found.st_mode):
            yield Listed(_shown(path.relative_to(root)), found.st_size, found.st_mtime_ns)


def _shown(path: Path) -> str:
    """Escape the bytes of a name that are not UTF-8, which no table accepts."""
    return os.fsencode(path).decode(errors="backslashreplace")


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
