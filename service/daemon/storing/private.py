"""The state folder is its owner's alone: objectives, items' times, options of sources with their passwords."""

from __future__ import annotations

import stat
from pathlib import Path

import structlog

OURS = ("lock", "recompose.sqlite*", "telemetry", "telemetry/**/*")
"""What the service puts there; whatever else is in the folder stays as it is."""
log = structlog.get_logger()


def make_private(directory: Path) -> None:
    """Makes the folder if need be. What an earlier version made as the umask says is taken back from others as well.

    Raises: OSError when it cannot be made.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if directory.stat().st_mode & stat.S_ISVTX:
        log.warning("state not private", path=str(directory), error="a folder for everybody")
    else:
        _restrict(directory)
    for pattern in OURS:
        for path in directory.glob(pattern):
            _restrict(path)


def _restrict(path: Path) -> None:
    mode = 0o700 if path.is_dir() else 0o600
    try:
        if stat.S_IMODE(path.lstat().st_mode) != mode and not path.is_symlink():
            path.chmod(mode)
    except FileNotFoundError:
        return  # a file of telemetry that went in the meantime
    except PermissionError as error:  # a volume that belongs to someone else, who decides
        log.warning("state not private", path=str(path), error=error.strerror)
