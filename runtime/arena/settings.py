"""How much memory large frames may take, of what there is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import psutil

from compositions.settings import ranged

_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""Of this container, in either version of control groups."""


@dataclass(frozen=True, slots=True)
class ArenaSettings:
    shared_memory: float = ranged(0.25, 0, 0.9)
    """The share of this machine's memory, or of its container's, that large frames may take, shared with the workers.
    What finds no room is copied; 0: all are. It is taken as it is needed; a quarter leaves room for the rest."""


def memory_bytes() -> int:
    """What this machine has, or its container may use where that is less."""
    return min(int(psutil.virtual_memory().total), *map(_limit, _LIMITS))


def _limit(file: Path) -> int:
    try:
        return int(file.read_text())
    except (OSError, ValueError):  # no such file, or "max"
        return 1 << 62
