"""References, which travel instead of large frames: each names the place of its frame in the arena."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from mmap import PAGESIZE
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
    """Return what this machine has, or its container may use where that is less."""
    return min(int(psutil.virtual_memory().total), *map(_limit, _LIMITS))


def _limit(file: Path) -> int:
    try:
        return int(file.read_text())
    except (OSError, ValueError):  # no such file, or "max"
        return 1 << 62


LARGE_BYTES = 64 * 1024
"""From here on a frame travels by reference. Below, a copy through a socket costs no more than the bookkeeping."""


def in_pages(size: int) -> int:
    """``size`` rounded up to whole pages: what was written on is told by pages, so no two blocks share one."""
    return -(-size // PAGESIZE) * PAGESIZE


class Block:
    """Pages of the arena that hold a frame, or are room for some; given back when nobody refers to them any more.

    Lives in the process that owns the arena, and nowhere else.
    """

    __slots__ = ("_give_back", "size", "start")

    def __init__(self, start: int, size: int, give_back: Callable[[int, int], None]) -> None:
        """``give_back`` gets start and size, in any thread and at any time."""
        self.start, self.size, self._give_back = start, size, give_back

    def __del__(self) -> None:
        if self.size:
            self._give_back(self.start, self.size)

    def cut(self, references: Iterable[Reference]) -> dict[int, Block]:
        """Blocks, by their start, for those of ``references`` that lie in this one; the rest of it is given back.

        Raises: ValueError when one of them reaches over an end, or two share a page.
        """
        sizes = {each.block: each.size for each in references if self.start <= each.block < self.start + self.size}
        blocks, at, stop = {}, self.start, self.start + self.size
        for start, size in sorted((start, in_pages(size)) for start, size in sizes.items()):
            if start < at or start + size > stop:
                raise ValueError(f"{size} bytes at {start} of the arena are not within a block of their own")
            self._spare(at, start)
            blocks[start] = Block(start, size, self._give_back)
            at = start + size
        self._spare(at, stop)
        self.size = 0
        return blocks

    def _spare(self, start: int, stop: int) -> None:
        if stop > start:
            self._give_back(start, stop - start)


class Reference:
    """Stands for a frame: ``size`` bytes at ``start`` of the arena, in the block that begins at ``block``.

    ``keeper`` keeps the block from being given back, where the arena is owned: whoever takes a reference from a worker
    sets it. (No dataclass: a frozen one takes three times as long to make, and each hop makes four.)
    """

    __slots__ = ("block", "keeper", "size", "start")

    def __init__(self, block: int, start: int, size: int, keeper: Block | None = None) -> None:
        self.block, self.start, self.size, self.keeper = block, start, size, keeper

    def __len__(self) -> int:
        return self.size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reference) and self._place() == other._place()

    def __hash__(self) -> int:
        return hash(self._place())

    def __repr__(self) -> str:
        return f"{self.size} bytes at {self.start} of the arena, in the block at {self.block}"

    def _place(self) -> tuple[int, int, int]:
        return self.block, self.start, self.size
