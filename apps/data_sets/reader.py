"""An app's view of a data set: the newest version, and those before it that items in flight still refer to."""

from __future__ import annotations

import logging
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from apps.data_sets.versions import INDEX, KEPT_VERSIONS, MANIFEST, is_data_set, read_manifest, version_folder
from apps.samples import cache_dir
from compositions.errors import RecomposeError

if TYPE_CHECKING:
    from apps.data_sets.recipe import Recipe  # Arrow, which workers do not need

# The data set that an app searches in: one that the user names, or the app's own, made from the files in its options.

T = TypeVar("T")


class Searched(Generic[T]):
    """``named``: a data set, or the index of one version; None: the app's own, of the files in ``folder``, identified
    by ``key``. ``load`` opens an index."""

    def __init__(
        self,
        kind: str,
        named: Path | None,
        folder: Callable[[], Path],
        recipe: Callable[[], Recipe],
        load: Callable[[Path], T],
        key: Callable[[], str] = str,
    ) -> None:
        self._kind, self._folder, self._recipe, self._load, self._key = kind, folder, recipe, load, key
        self._named = named.expanduser() if named is not None else None

    def prepare(self) -> None:
        """Update the app's own data set to its files. Raises: RecomposeError if the data set is unusable."""
        if self._named is not None:
            self.open()
        else:
            self._make(self._own())

    def open(self) -> Reader[T] | Unversioned[T]:
        """Open the data set. The app's own is made here only if ``prepare`` has left none, as on another host."""
        place = self._named or self._own()
        if self._named is None and not is_data_set(place):
            self._make(place)
        return Unversioned(self._load(place)) if place.is_file() else Reader(place, self._kind, self._load)

    def _make(self, place: Path) -> None:
        from apps.data_sets.ingest import keep

        keep(self._recipe(), self._folder(), place)

    def _own(self) -> Path:
        digest = sha256(f"{self._folder().resolve()}\0{self._key()}".encode())
        return cache_dir() / self._kind / digest.hexdigest()[:24]


log = logging.getLogger("recompose.data_sets")


class Reader(Generic[T]):
    """Follows the manifest: between two items, it checks for a new version, which takes a microsecond or two.

    If a version cannot be opened, that is logged, and the previous one stays in use. Raises: RecomposeError if there is
    no data set of that kind, or its index cannot be opened.
    """

    def __init__(self, folder: Path, kind: str, load: Callable[[Path], T]) -> None:
        self._folder, self._kind, self._load = folder, kind, load
        self._open: dict[int, T] = {}
        self._loaded: tuple[str, T] | None = None
        self._seen = self._stamp()
        self._newest = self._take(read_manifest(folder, kind))

    def newest(self) -> tuple[int, T]:
        """Return the current version's number and its index."""
        stamp = self._stamp()
        if stamp != self._seen:
            self._seen = stamp
            self._follow()
        return self._newest

    def version(self, number: int) -> T:
        """Return the index of version ``number``, which an item refers to. Raises: RecomposeError if it is gone."""
        if number in self._open:
            return self._open[number]
        return self._take(read_manifest(version_folder(self._folder, number), self._kind))[1]

    def _follow(self) -> None:
        try:
            self._newest = self._take(read_manifest(self._folder, self._kind))
        except RecomposeError as error:
            log.warning("staying with version %d of the data set; a newer one is unusable: %s", self._newest[0], error)

    def _take(self, manifest: dict[str, Any]) -> tuple[int, T]:
        """Load an index, unless it is unchanged from a version that is loaded."""
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
    """A reader of an index without versions."""

    def __init__(self, value: T) -> None:
        self._value = value

    def newest(self) -> tuple[int, T]:
        return 0, self._value

    def version(self, number: int) -> T:
        return self._value
