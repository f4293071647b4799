"""The cores that this process may use: those it may run on, or its control group's quota where that is less.

A container with two CPUs on a machine of 64 cores may run on all of them, for two cores' worth of time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

PROC, MOUNTED = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
_V1 = ("cpu", "cpu,cpuacct", "cpuacct,cpu")
"""Names of the CPU controller's mount point, which are also its names in ``/proc/self/cgroup``."""
_V2 = ("", "unified")


def available_cores() -> float:
    """Return the number of cores that this process may use; an integer unless it is fractional."""
    cores: float = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = cpu_quota()
    if quota is None or quota >= cores:
        return cores
    return int(quota) if quota == int(quota) else round(quota, 3)


def cpu_quota(proc: Path = PROC, mounted: Path = MOUNTED) -> float | None:
    """Return the smallest CPU quota, in cores, of the process's control group and its ancestors, of either version;
    None if there is none."""
    return min((each for folder in _folders(proc, mounted) if (each := _quota(folder)) is not None), default=None)


def _folders(proc: Path, mounted: Path) -> Iterator[Path]:
    """Return the folders of the group and its ancestors. In a container the path may be the host's; the mounted folder
    is then the container's own group."""
    try:
        lines = [line.split(":", 2) for line in proc.read_text().splitlines()]
    except OSError:
        return
    for _, controllers, path in (line for line in lines if len(line) == 3):
        places = _V2 if not controllers else _V1 if "cpu" in controllers.split(",") else ()
        for place in places:
            top = mounted / place
            group = top / path.lstrip("/")
            yield from (each for each in (group, *group.parents) if each == top or top in each.parents)


def _quota(folder: Path) -> float | None:
    try:
        if (folder / "cpu.max").exists():
            quota, period = (folder / "cpu.max").read_text().split()
        else:
            quota, period = ((folder / f"cpu.cfs_{name}_us").read_text().strip() for name in ("quota", "period"))
        return int(quota) / int(period) if quota not in ("max", "-1") else None
    except (OSError, ValueError, ZeroDivisionError):  # the file is missing or has another format
        return None
