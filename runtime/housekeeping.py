"""Keep Python's own work from holding up a process, and remove folders of processes that are gone."""

import ctypes
import gc
import os
import shutil
import sys
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

import psutil

from runtime.placement.cluster import CpuReport, cores_of

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
    with suppress(FileNotFoundError):  # another process sweeps as well
        return folder.stat().st_uid == os.getuid()
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


TRIM_EVERY_S = 60.0


def trim() -> None:
    """Give pages back that the C library's allocator has freed and kept: it does so by itself at the end of its heap
    only, and a runner grew by 2 MB an hour. Takes 0.7 ms; does nothing where the C library has no such call."""
    with suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def short_turns() -> None:
    """A thread that comes back from the network waits for at most this long for one that calculates, and not 5 ms."""
    sys.setswitchinterval(TURN_S)


PROC, MOUNTED = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
_V1 = ("cpu", "cpu,cpuacct", "cpuacct,cpu")
"""Names of the CPU controller's mount point, which are also its names in ``/proc/self/cgroup``."""
_V2 = ("", "unified")
_QUOTAS = (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us"))


def available_cores() -> float:
    """Return the number of cores that this process may use; an integer unless it is fractional."""
    seen = cpu_report()
    cores = cores_of(seen.machine, seen)
    return int(cores) if cores == int(cores) else cores


def cpu_report() -> CpuReport:
    """Return what this process sees of its CPUs."""
    machine = os.cpu_count() or 1
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else machine
    return CpuReport(machine, affinity, cpu_quota())


def cpu_quota(proc: Path = PROC, mounted: Path = MOUNTED) -> float | None:
    """Return the smallest CPU quota, in cores, of the process's control group and those above; None: no limit."""
    return min((each for files in _files(proc, mounted) if (each := _quota(files)) is not None), default=None)


@cache
def _files(proc: Path, mounted: Path) -> tuple[tuple[Path, ...], ...]:
    """Return the files with the quotas of the group and its ancestors; made once, as they are read four times a second:
    the parts of a ``Path`` are interned, and Python's table of such names keeps the place of each that was."""
    try:
        lines = [line.split(":", 2) for line in proc.read_text().splitlines()]
    except OSError:
        return ()
    folders: list[Path] = []
    for _, controllers, path in (line for line in lines if len(line) == 3):
        places = _V2 if not controllers else _V1 if "cpu" in controllers.split(",") else ()
        for place in places:
            top = mounted / place
            group = top / path.lstrip("/")  # in a container this may be the host's: then ``top`` is its own group
            folders += (each for each in (group, *group.parents) if each == top or top in each.parents)
    files = ([folder / name for name in names] for folder in folders for names in _QUOTAS)
    return tuple(tuple(each) for each in files if each[0].exists())


def _quota(files: tuple[Path, ...]) -> float | None:
    with suppress(OSError, ValueError, ZeroDivisionError):  # a file went away or has another format
        quota, period = " ".join(file.read_text() for file in files).split()
        return int(quota) / int(period) if quota not in ("max", "-1") else None
    return None
