"""The files of a data set: in a folder, or in an object store by its URL (s3://, gs://, hdfs://)."""

import errno
import os
import stat
from array import array
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import NamedTuple, TypeVar

import pyarrow as pa
from pyarrow import fs

from apps.data_sets.rows import LISTED
from compositions.errors import RecomposeError

T = TypeVar("T")


TURN_FILES = 4096


class Listed(NamedTuple):
    path: str
    size: int
    mtime_ns: int


class Place:
    """A folder, or a single file. Picklable: opened anew in every process. Raises: RecomposeError when it does not
    exist or cannot be reached."""

    def __init__(self, place: str | Path) -> None:
        self.name = str(place) if "://" in str(place) else str(Path(place).expanduser().absolute())
        self._system, self._root = _opened(self.name)
        info = _asked(self.name, lambda: self._system.get_file_info(self._root))
        if info.type == fs.FileType.NotFound:
            raise RecomposeError(f"{self.name!r} does not exist; give a folder, or the URL of one")
        self._single = info.type == fs.FileType.File

    def __reduce__(self) -> "tuple[type[Place], tuple[str]]":
        return Place, (self.name,)

    def list(self, suffixes: frozenset[str]) -> pa.Table:
        """Return the files with one of the suffixes, sorted by path, as ``LISTED``. Raises: RecomposeError for none."""
        files = (each for each in self._all() if _suffix(each) in suffixes)
        turns = iter(lambda: list(islice(files, TURN_FILES)), [])
        found = _asked(self.name, lambda: [pa.table(list(zip(*some, strict=True)), schema=LISTED) for some in turns])
        if not found:
            known = ", ".join(sorted(suffixes))
            raise RecomposeError(f"{self.name!r} has no usable files; give a folder with files that end in {known}")
        return pa.concat_tables(found).sort_by("path")

    def skipped(self, suffixes: frozenset[str]) -> tuple[str, ...]:
        """Return unusable files, which ``list`` leaves out, by path."""
        if self._single:
            return ()
        others = (each.path for each in self._all() if _suffix(each) not in suffixes)
        return _asked(self.name, lambda: tuple(sorted(others)))

    def read(self, path: str) -> bytes:
        """Return the content of a file. Raises: OSError."""
        place = self._root if self._single else f"{self._root}/{path}"
        try:
            with self._system.open_input_stream(place) as file:
                data: bytes = file.read()
                return data
        except FileNotFoundError as error:
            if "\\x" not in path:
                raise
            raise OSError(errno.EILSEQ, "its name is not UTF-8; rename it") from error

    def _all(self) -> Iterator[Listed]:
        """Yield every file once, in no particular order. Raises: OSError."""
        if not self._single and isinstance(self._system, fs.LocalFileSystem):
            yield from _below(Path(self._root))
            return
        infos = self._system.get_file_info(self._root if self._single else fs.FileSelector(self._root, recursive=True))
        for info in [infos] if self._single else infos:
            if info.type == fs.FileType.File:
                path = PurePosixPath(info.path)
                name = path.name if self._single else path.relative_to(self._root).as_posix()
                yield Listed(name, info.size, info.mtime_ns or 0)


def _suffix(file: Listed) -> str:
    return PurePosixPath(file.path).suffix.lower()


def _below(root: Path) -> Iterator[Listed]:
    """Return the files of a local folder, each once: links are followed last, to files that were not found yet."""
    folders, links = [root], list[Path]()
    seen = set[tuple[int, int]]()
    found = array("Q")  # device and number of each file, for links alone: a set would take ten times the memory
    linked = False
    while folders or links:
        if not folders and not linked:
            linked = True
            seen.update(zip(found[::2], found[1::2], strict=True))
        path = folders.pop() if folders else links.pop()
        files: Iterable[Path] = [path]
        info = _info(path)
        if info is not None and stat.S_ISDIR(info.st_mode):
            if (info.st_dev, info.st_ino) in seen:
                continue
            seen.add((info.st_dev, info.st_ino))
            files = _sorted_out(path, folders, links)
        for file in files:
            info = _info(file)
            if info is None or not stat.S_ISREG(info.st_mode):
                continue
            key = info.st_dev, info.st_ino
            if linked and key in seen:  # without a link, a file may have two names
                continue
            (seen.add if linked else found.extend)(key)
            yield Listed(_shown(file.relative_to(root)), info.st_size, info.st_mtime_ns)


def _sorted_out(folder: Path, folders: list[Path], links: list[Path]) -> Iterator[Path]:
    """Yield the files of a folder; add its subfolders to ``folders`` and its links to ``links``."""
    for each in os.scandir(folder):
        if each.is_symlink() or each.is_dir():
            (links if each.is_symlink() else folders).append(Path(each.path))
        else:
            yield Path(each.path)
    links.sort(reverse=True)


def _info(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP):  # a link that leads nowhere
            return None
        raise


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
    except (OSError, ValueError) as error:  # pyarrow's own errors are subclasses of these
        raise RecomposeError(f"{name!r} cannot be read: {str(error).splitlines()[0]}") from error
