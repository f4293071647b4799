"""The data set that an app searches in: one that the user names, or the app's own, of the files in its options."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from apps.data_sets.reader import Reader, Unversioned
from apps.data_sets.versions import is_data_set
from apps.samples import cache_dir

if TYPE_CHECKING:
    from apps.data_sets.recipe import Recipe  # Arrow: workers do not need it

T = TypeVar("T")


class Searched(Generic[T]):
    """``named``: a data set, or the index of one version; None: the app's own, of the files in ``folder`` and by what
    ``key`` tells. ``load`` opens an index."""

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
        """Brings the app's own up to date with its files. Raises: RecomposeError when it cannot be searched in."""
        if self._named is not None:
            self.open()
        else:
            self._make(self._own())

    def open(self) -> Reader[T] | Unversioned[T]:
        """The app's own is made here only where ``prepare`` has left none: on another host."""
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
