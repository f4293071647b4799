"""Keep Python's own work from holding up a process, and remove folders of processes that are gone."""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
from pathlib import Path

import psutil

PREFIX = "recompose-"
"""Prefix of the folder's name; the id of the owning process follows."""


def make_folder(base: Path | None = None) -> str:
    """Make a folder that no other user can enter, in ``base`` (default: where temporary files go)."""
    sweep(base or Path(tempfile.gettempdir()))
    return tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=base)


def sweep(base: Path) -> None:
    """Remove the folders in ``base`` of this user's processes that were killed."""
    for folder in base.glob(f"{PREFIX}*-*"):
        pid = folder.name.removeprefix(PREFIX).partition("-")[0]
        if pid.isdecimal() and not psutil.pid_exists(int(pid)) and _is_mine(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _is_mine(folder: Path) -> bool:
    try:
        return folder.stat().st_uid == os.getuid()
    except FileNotFoundError:  # another process sweeps as well
        return False


TURN_S = 0.0005


def settle() -> None:
    """What is loaded by now stays for good: the collector need not look at it again; threads take short turns.

    A full collection of a process with Ray and NumPy in it stops every thread for 0.1 s and more. For processes that
    serve one app; where many come and go, cycles of those that went would stay as well.
    """
    short_turns()
    gc.collect()
    gc.freeze()


def unsettle() -> None:
    """What this process served is over, and it will serve again: cycles of what was settled are collected, too."""
    gc.unfreeze()
    gc.collect()


def short_turns() -> None:
    """A thread that comes back from the network waits for at most this long for one that calculates, and not 5 ms."""
    sys.setswitchinterval(TURN_S)
