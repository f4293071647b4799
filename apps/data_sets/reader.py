"""What an app has open of a data set: the newest version, and those before it that items on their way still name."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

from apps.data_sets.versions import INDEX, KEPT_VERSIONS, MANIFEST, read_manifest, version_folder
from compositions.errors import RecomposeError

T = TypeVar("T")
log = logging.getLogger("recompose.data_sets")


class Reader(Generic[T]):
    """Follows the manifest: asked between two items whether it is another one, which costs a microsecond or two.

    A version that cannot be opened is logged, and the one before stays in use.
    Raises: RecomposeError when there is no data set of that kind, or its index cannot be opened.
    """

    def __init__(self, folder: Path, kind: str, load: Callable[[Path], T]) -> None:
        self._folder, self._kind, self._load = folder, kind, load
        self._open: dict[int, T] = {}
        self._loaded: tuple[str, T] | None = None
        self._seen = self._stamp()
        self._newest = self._take(read_manifest(folder, kind))

    def newest(self) -> tuple[int, T]:
        """The current version's number, and what was loaded of it."""
        stamp = self._stamp()
        if stamp != self._seen:
            self._seen = stamp
            self._follow()
        return self._newest

    def version(self, number: int) -> T:
        """That of an item which met version ``number`` before. Raises: RecomposeError when it is gone."""
        if number in self._open:
            return self._open[number]
        return self._take(read_manifest(version_folder(self._folder, number), self._kind))[1]

    def _follow(self) -> None:
        try:
            self._newest = self._take(read_manifest(self._folder, self._kind))
        except RecomposeError as error:
            log.warning("staying with version %d of the data set: %s", self._newest[0], error)

    def _take(self, manifest: dict[str, Any]) -> tuple[int, T]:
        """An index that did not change from one version to the next is not loaded again."""
        number, checksum = int(manifest["version"]), manifest["sha256"][INDEX]
        if self._loaded is None or self._loaded[0] != checksum:
            self._loaded = (checksum, self._load(version_folder(self._folder, number) / INDEX))
        self._open[number] = self._loaded[1]
        for old in sorted(self._open)[:-KEPT_VERSIONS]:
            del self._open[old]
        return number, self._loaded[1]

    def _stamp(self) -> tuple[int, int]:
        try:
            stat = (self._folder / MANIFEST).stat()
        except OSError:
            return 0, 0
        return stat.st_ino, stat.st_mtime_ns


class Unversioned(Generic[T]):
    """A reader of something that has no versions."""

    def __init__(self, value: T) -> None:
        self._value = value

    def newest(self) -> tuple[int, T]:
        return 0, self._value

    def version(self, number: int) -> T:
        return self._value
