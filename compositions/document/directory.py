"""Compositions files on disk, read again when they change."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import watchfiles

from compositions.document.loader import load, merge
from compositions.document.safe_yaml import MAX_BYTES
from compositions.errors import CompositionError, Fault
from compositions.model import Composition, Document, Stage
from compositions.resources import Resources

_SUFFIXES = frozenset({".yaml", ".yml"})
_Stamp = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Problem:
    """A refused file with its faults; the compositions from its last good content stay in force."""

    file: Path
    faults: tuple[Fault, ...]

    def __str__(self) -> str:
        return "\n".join(f"{self.file}: {fault}" for fault in self.faults)


@dataclass(frozen=True, slots=True)
class _File:
    """The state of a file: time stamp and size when read, last good content, and last refusal."""

    stamp: _Stamp
    document: Document | None = None
    problem: Problem | None = None


class CompositionDirectory:
    """Compositions of every app from YAML files; later paths, and later file names in a folder, replace earlier ones.

    ``paths`` are folders (their ``*.yaml`` and ``*.yml``) or single files. Call ``refresh`` to read them. Readers need
    no lock, because a refresh replaces the whole set at once.

    Raises: CompositionError if a path does not exist.
    """

    def __init__(self, paths: Sequence[Path], apps: Mapping[str, Sequence[Stage]]) -> None:
        missing = [Fault("", f"compositions path {path} does not exist") for path in paths if not path.exists()]
        if missing:
            raise CompositionError(missing)
        self._paths = tuple(paths)
        self._apps = apps
        self._files: dict[Path, _File] = {}
        self._compositions: dict[str, dict[str, Composition]] = {}
        self._refreshing = threading.Lock()

    def compositions(self, app: str) -> tuple[Composition, ...]:
        """Return the compositions of ``app`` as of the last refresh; none for an app that no file names."""
        return tuple(self._compositions.get(app, {}).values())

    def resources(self, app: str) -> Resources:
        """Return the resources in the files that replace those of the stages of ``app``, as of the last refresh."""
        known = (file.document for file in self._files.values() if file.document is not None)
        return {stage: asked for each in known if each.app == app for stage, asked in each.resources.items()}

    def refresh(self) -> list[Problem]:
        """Read new and changed files, and forget removed ones; return the files that this refresh refused."""
        with self._refreshing:
            before = self._files
            self._files = {path: file for path in self._listed() if (file := self._read(path)) is not None}
            documents = (file.document for file in self._files.values())
            self._compositions = merge(document for document in documents if document is not None)
            fresh = (file.problem for path, file in self._files.items() if file is not before.get(path))
            return [problem for problem in fresh if problem is not None]

    def watch(
        self,
        stop: threading.Event,
        report: Callable[[list[Problem]], None],
        *,
        every_s: float = 5.0,
        debounce_s: float = 0.2,
    ) -> None:
        """Refresh and report at every change on disk until ``stop`` is set; run it in a thread of its own.

        It also refreshes every ``every_s`` seconds, for file systems without change notifications.
        """
        folders = {path if path.is_dir() else path.parent for path in self._paths}
        for _ in watchfiles.watch(
            *folders,
            stop_event=stop,
            recursive=False,
            yield_on_timeout=True,
            rust_timeout=round(every_s * 1000),
            debounce=round(debounce_s * 1000),
        ):
            report(self.refresh())

    def _listed(self) -> Iterator[Path]:
        for path in self._paths:
            if path.is_dir():
                yield from sorted(each for each in path.iterdir() if each.suffix in _SUFFIXES and each.is_file())
            else:
                yield path

    def _read(self, path: Path) -> _File | None:
        """Return the state of a file, read again if it changed; None if the file is gone, even during the read."""
        known = self._files.get(path)
        try:
            status = path.stat()
            # The stamp is taken before reading, so that a change in between is found at the next refresh.
            stamp = (status.st_mtime_ns, status.st_size)
            if known is not None and known.stamp == stamp:
                return known
            with path.open("rb") as stream:
                content = stream.read(MAX_BYTES + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            return self._refused(path, known, (0, 0), [Fault("", f"cannot be read: {error.strerror}")])
        try:
            return _File(stamp, load(content, self._apps))
        except CompositionError as error:
            return self._refused(path, known, stamp, error.faults)

    def _refused(self, path: Path, known: _File | None, stamp: _Stamp, faults: Sequence[Fault]) -> _File:
        return _File(stamp, known.document if known is not None else None, Problem(path, tuple(faults)))
