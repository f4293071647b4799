"""References, which travel instead of large frames: each names the place of its frame in the arena."""

import fcntl
import mmap
import os
import resource
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from mmap import PAGESIZE
from pathlib import Path
from typing import Any, Self

import numpy as np
import psutil
from numpy.typing import NDArray

from compositions.settings import ranged

Bytes = NDArray[np.uint8]
_NO_RESERVE = 0x4000  # MAP_NORESERVE: address space is not memory
_ENTRY_BYTES = 8
_PRESENT_OR_SWAPPED, _OF_THE_FILE = np.uint64(0b11 << 62), np.uint64(1 << 61)


def faults() -> int:
    """Page faults of this process so far, those that needed no disk. No page becomes one's own without one."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


class Segment:
    def __init__(self, descriptor: int) -> None:
        """Maps what ``create`` made, here or in another process. Raises: OSError when that is not possible here."""
        self.descriptor = descriptor
        self.size = os.fstat(descriptor).st_size
        self._shared_map = mmap.mmap(descriptor, self.size, mmap.MAP_SHARED | _NO_RESERVE)
        self._own_map = mmap.mmap(descriptor, self.size, mmap.MAP_PRIVATE | _NO_RESERVE)
        self._shared, self._own = np.frombuffer(self._shared_map, np.uint8), np.frombuffer(self._own_map, np.uint8)
        self._address = _address(self._own)
        self._pages = os.open("/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC)
        weakref.finalize(self, os.close, self._pages)

    @classmethod
    def create(cls, size: int) -> Self:
        """``size`` bytes in whole pages, which take memory when written to. Raises: OSError if there is none."""
        if not hasattr(os, "memfd_create"):
            raise OSError("this system has no memory without a name (memfd_create)")
        descriptor = os.memfd_create("recompose-arena", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(descriptor, in_pages(size))
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
            return cls(descriptor)
        except OSError:
            os.close(descriptor)
            raise

    def forget_descriptor(self) -> None:
        """Nobody else will be given it; what is mapped stays."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    # --- what all see ------------------------------------------------------------------------------------------------

    def write(self, start: int, frame: Any) -> None:
        """``frame`` is anything bytes-like, and not empty. Lets other threads run."""
        source = np.frombuffer(frame, np.uint8)
        self._shared[start : start + len(source)] = source

    def view(self, start: int, size: int) -> memoryview:
        """For reading at once; what is written there later shows."""
        return memoryview(self._shared_map)[start : start + size].toreadonly()

    def discard(self, start: int, stop: int) -> None:
        """Gives memory back to the system; whole pages. They read as zeros."""
        self._shared_map.madvise(mmap.MADV_REMOVE, start, stop - start)

    # --- what this process has for itself ----------------------------------------------------------------------------

    def own(self, start: int, size: int) -> Bytes:
        """For reading and writing, seen by this process alone. Pages not written on show what all see."""
        return np.frombuffer(self._own_map, np.uint8, size, start)

    def offset_of(self, frame: Any) -> int | None:
        """Return where a frame lies that is memory of ``own``."""
        offset = _address(np.frombuffer(frame, np.uint8)) - self._address if len(frame) else -1
        return offset if 0 <= offset < self.size else None

    def is_written(self, start: int, size: int) -> bool:
        """Return whether this process wrote on ``own`` pages of this part, which show what others do not see."""
        first, last = (self._address + start) // mmap.PAGESIZE, (self._address + start + size - 1) // mmap.PAGESIZE
        data = os.pread(self._pages, (last - first + 1) * _ENTRY_BYTES, first * _ENTRY_BYTES)
        entries = np.frombuffer(data, np.uint64)
        here = (entries & _PRESENT_OR_SWAPPED) != 0
        return bool((here & ((entries & _OF_THE_FILE) == 0)).any())

    def restore(self, start: int, size: int) -> None:
        """The pages of ``own`` show again what all see; ``start`` is that of a page."""
        self._own_map.madvise(mmap.MADV_DONTNEED, start, in_pages(size))


def _address(array: Bytes) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


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
    with suppress(OSError, ValueError):  # no such file, or "max"
        return int(file.read_text())
    return 1 << 62


LARGE_BYTES = 32 * 1024
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

    def cut(self, references: "Iterable[Reference]") -> "dict[int, Block]":
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
