"""How long telemetry is kept: by age and by size, oldest files first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from time import time

from datapipe.telemetry.schema import SCHEMAS, SEPARATOR, SUFFIX


@dataclass(frozen=True, slots=True)
class Keep:
    """What one app may leave behind."""

    days: float = 7.0
    """A week: long enough to compare with the same day of the last one."""
    megabytes: float = 1000.0
    """Some 30 million items of four stages."""


def sweep(directory: Path, app: str, keep: Keep, now_s: float | None = None) -> int:
    """Deletes files of ``app`` beyond the limits; returns how many. What cannot be deleted is passed over."""
    oldest_s = (time() if now_s is None else now_s) - keep.days * 86_400
    left_bytes = keep.megabytes * 1e6
    deleted = 0
    for changed_s, size, path in sorted(_files(directory, app), reverse=True):
        left_bytes -= size
        if changed_s < oldest_s or left_bytes < 0:
            deleted += _delete(path)
    return deleted


def _files(directory: Path, app: str) -> Iterable[tuple[float, int, Path]]:
    for kind in SCHEMAS:
        for path in (directory / kind).glob(f"{app}{SEPARATOR}*{SUFFIX}"):
            try:
                found = path.stat()
            except OSError:  # another runner's sweep was faster
                continue
            yield found.st_mtime, found.st_size, path


def _delete(path: Path) -> bool:
    try:
        path.unlink()
    except OSError:
        return False
    return True
