"""A data set on disk: versions that never change, and one manifest that names the current one.

::

    DIR/manifest.json                           the current version's; replaced in one step
    DIR/versions/3/manifest.json
    DIR/versions/3/files.parquet                path, size, mtime_ns, sha256, error, rows (their count)
    DIR/versions/3/quarantine.parquet           path, reason
    DIR/versions/3/features/shard=0/part.parquet  …   path, row, and the columns of the app
    DIR/versions/3/index.npz                    what the app opens
    DIR/staging/                                records of a job that has not ended yet

What a version shares with the one before is a hard link to it.
"""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

from apps.output_file import sync
from compositions.errors import RecomposeError

FORMAT = 1
"""The version of the layout above."""
KEPT_VERSIONS = 3
"""Number of versions that are kept: items in flight refer to older ones, which an app opens too."""
MANIFEST = "manifest.json"
INDEX = "index.npz"
LOCK = ".recompose-data-set"
"""Held by the writer; it also marks a folder as a data set, even an unfinished one."""


class Unusable(RecomposeError):  # noqa: N818 - a sentence reads better with its name
    """A data set cannot be read, or was written by another version of the program."""


def read_manifest(folder: Path, kind: str) -> dict[str, Any]:
    """Read the manifest in ``folder``: a data set's, or one version's. Raises: RecomposeError if there is none, or it
    has another kind; Unusable if it is damaged or has an unknown format."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        found, format_, number = manifest["kind"], manifest["format"], manifest["version"]
    except FileNotFoundError as error:
        raise RecomposeError(f"{str(folder)!r} contains no data set; create one with recompose ingest") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Unusable(f"{str(folder / MANIFEST)!r} is damaged ({error}); give another folder") from error
    if format_ != FORMAT or not isinstance(number, int):
        raise Unusable(f"data set {str(folder)!r} has format {format_}; this version reads format {FORMAT}")
    if found != kind:
        raise RecomposeError(f"data set {str(folder)!r} is of kind {found!r}; {kind!r} is needed")
    return dict(manifest)


def is_data_set(folder: Path) -> bool:
    return (folder / MANIFEST).is_file()


def version_folder(folder: Path, version: int) -> Path:
    return folder / "versions" / str(version)


class DataSet:
    """The writer of a data set, made by ``writing``, which excludes a second writer."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder, self._kind = folder, kind
        self.manifest = read_manifest(folder, kind) if is_data_set(folder) else None
        self.staging = folder / "staging"

    @property
    def version(self) -> int:
        """Return the number of the current version; 0 if there is none yet."""
        return int(self.manifest["version"]) if self.manifest else 0

    @property
    def current(self) -> Path:
        return version_folder(self.folder, self.version)

    @contextmanager
    def next_version(self) -> Iterator[Path]:
        """Yield a folder to fill, which becomes a version if the block succeeds, and is removed otherwise."""
        draft = self.folder / "versions" / "draft"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        try:
            yield draft
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise

    def publish(self, draft: Path, content: dict[str, Any]) -> dict[str, Any]:
        """Make the draft the current version, atomically for readers."""
        number = self.version + 1
        manifest = {"format": FORMAT, "kind": self._kind, "version": number, **content}
        (draft / MANIFEST).write_text(json.dumps(manifest, indent=1, sort_keys=True), encoding="utf-8")
        sync(*draft.rglob("*"), draft)
        target = version_folder(self.folder, number)
        shutil.rmtree(target, ignore_errors=True)  # left by a job that was killed before it switched
        draft.rename(target)
        fresh = self.folder / f"{MANIFEST}.new"
        shutil.copyfile(target / MANIFEST, fresh)
        sync(fresh, self.folder)
        fresh.replace(self.folder / MANIFEST)
        self.manifest = manifest
        return manifest

    def discard(self) -> None:
        """Remove all that a failed job has created, and leave everything that was there before."""
        shutil.rmtree(self.staging, ignore_errors=True)
        if self.manifest is None:
            (self.folder / LOCK).unlink(missing_ok=True)
            for empty in (self.folder / "versions", self.folder):
                with suppress(OSError):  # it is not, or was never there
                    empty.rmdir()

    def tidy(self) -> None:
        """Remove staged records and the oldest versions."""
        shutil.rmtree(self.staging, ignore_errors=True)
        for old in (self.folder / "versions").iterdir():
            if not old.name.isdigit() or int(old.name) <= self.version - KEPT_VERSIONS:
                shutil.rmtree(old, ignore_errors=True)


@contextmanager
def writing(folder: Path, kind: str, wait: bool = False) -> Iterator[DataSet]:
    """Exclude other writers. Raises: RecomposeError if another process writes the data set (unless it ``wait``s for
    that), it has another kind, or the folder cannot be made."""
    with _locked(folder, wait):  # closing the file, or the end of the process, releases the lock
        data = DataSet(folder, kind)
        try:
            yield data
        finally:
            if not data.version and not data.staging.exists():
                data.discard()


def _locked(folder: Path, wait: bool) -> TextIO:
    """Return the locked lock file. An earlier holder may have removed the folder together with the file."""
    while True:
        lock = _lock_file(folder)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except OSError as error:
            lock.close()
            reason = f"data set {str(folder)!r} is being written by another process; wait for it"
            raise RecomposeError(reason) from error
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock.fileno()), (folder / LOCK).stat()):
                return lock
        lock.close()


def _lock_file(folder: Path) -> TextIO:
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if not (folder / LOCK).exists() and any(folder.iterdir()):
                raise RecomposeError(f"folder {str(folder)!r} has other files in it; give a data set, or a new folder")
            return (folder / LOCK).open("w")
        except FileNotFoundError:
            continue  # a failed job removed the file in between
        except OSError as error:
            raise RecomposeError(f"cannot write data set {str(folder)!r}: {error.strerror}") from error


def share(before: Path, now: Path) -> None:
    """Share a file with another version, by a link or a copy."""
    now.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(before, now)
    except OSError:  # a file system without links
        shutil.copyfile(before, now)
