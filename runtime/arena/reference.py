"""References, which travel instead of large frames: each one gives the position of its frame in the arena."""

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
    """Return the number of minor page faults of this process. Each private copy of a page takes at least one."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


class Segment:
    def __init__(self, descriptor: int) -> None:
        """Map the memory that ``create`` made in this or another process. Raises: OSError if it cannot be mapped."""
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
        """Create ``size`` bytes in whole pages, which take memory once written to. Raises: OSError if unsupported."""
        if not hasattr(os, "memfd_create"):
            raise OSError("this system lacks memfd_create")
        descriptor = os.memfd_create("recompose-arena", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(descriptor, in_pages(size))
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
            return cls(descriptor)
        except OSError:
            os.close(descriptor)
            raise

    def forget_descriptor(self) -> None:
        """Close the descriptor, so that it can no longer be passed on; the mapping stays."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    # --- what all see ------------------------------------------------------------------------------------------------

    def write(self, start: int, frame: Any) -> None:
        """Copy a bytes-like, non-empty frame to ``start``. Other threads may run meanwhile (no GIL)."""
        source = np.frombuffer(frame, np.uint8)
        self._shared[start : start + len(source)] = source

    def view(self, start: int, size: int) -> memoryview:
        """Return a read-only view for immediate use; it shows later writes."""
        return memoryview(self._shared_map)[start : start + size].toreadonly()

    def discard(self, start: int, stop: int) -> None:
        """Return the memory of whole pages to the system; they then read as zeros."""
        self._shared_map.madvise(mmap.MADV_REMOVE, start, stop - start)

    # --- what this process has for itself ----------------------------------------------------------------------------

    def own(self, start: int, size: int) -> Bytes:
        """Return private writable memory of this process. Pages not written to show the shared content."""
        return np.frombuffer(self._own_map, np.uint8, size, start)

    def offset_of(self, frame: Any) -> int | None:
        """Return the position of a frame that lies in memory of ``own``; None for other frames."""
        offset = _address(np.frombuffer(frame, np.uint8)) - self._address if len(frame) else -1
        return offset if 0 <= offset < self.size else None

    def is_written(self, start: int, size: int) -> bool:
        """Return whether this process wrote to ``own`` pages of this range, so that they may differ from the shared."""
        first, last = (self._address + start) // mmap.PAGESIZE, (self._address + start + size - 1) // mmap.PAGESIZE
        data = os.pread(self._pages, (last - first + 1) * _ENTRY_BYTES, first * _ENTRY_BYTES)
        entries = np.frombuffer(data, np.uint64)
        here = (entries & _PRESENT_OR_SWAPPED) != 0
        return bool((here & ((entries & _OF_THE_FILE) == 0)).any())

    def restore(self, start: int, size: int) -> None:
        """Drop private changes: the pages of ``own`` show the shared content again. ``start`` is page-aligned."""
        self._own_map.madvise(mmap.MADV_DONTNEED, start, in_pages(size))


def _address(array: Bytes) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""Files with the memory limit of this container, in version 2 or 1 of control groups."""


@dataclass(frozen=True, slots=True)
class ArenaSettings:
    shared_memory: float = ranged(0.25, 0, 0.9)
    """Fraction of the memory of this machine or container that large frames may take, shared with the workers. Frames
    beyond it are copied; with 0, all frames are. Memory is taken only as needed."""


def memory_bytes() -> int:
    """Return the memory of this machine, or the limit of its container if that is less."""
    return min(int(psutil.virtual_memory().total), *map(_limit, _LIMITS))


def _limit(file: Path) -> int:
    with suppress(OSError, ValueError):  # no such file, or "max"
        return int(file.read_text())
    return 1 << 62


LARGE_BYTES = 32 * 1024
"""Minimum size of a frame that travels by reference. A smaller one costs no more as a copy through a socket."""


def in_pages(size: int) -> int:
    """Return ``size`` rounded up to whole pages: writes are detected per page, so no two blocks may share one."""
    return -(-size // PAGESIZE) * PAGESIZE


class Block:
    """Pages of the arena that hold a frame or room for frames; freed when no object refers to the block any more.

    Blocks exist only in the process that owns the arena.
    """

    __slots__ = ("_give_back", "size", "start")

    def __init__(self, start: int, size: int, give_back: Callable[[int, int], None]) -> None:
        """``give_back``: called with start and size to free the pages, in any thread and at any time."""
        self.start, self.size, self._give_back = start, size, give_back

    def __del__(self) -> None:
        if self.size:
            self._give_back(self.start, self.size)

    def cut(self, references: "Iterable[Reference]") -> "dict[int, Block]":
        """Split this block into a block for each of ``references`` that lies in it, by start, and free the rest.

        Raises: ValueError if one of them reaches beyond the block, or two share a page.
        """
        sizes = {each.block: each.size for each in references if self.start <= each.block < self.start + self.size}
        blocks, at, stop = {}, self.start, self.start + self.size
        for start, size in sorted((start, in_pages(size)) for start, size in sizes.items()):
            if start < at or start + size > stop:
                raise ValueError(f"{size} bytes at {start} of the arena overlap another block or exceed theirs")
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
    """A placeholder for a frame: ``size`` bytes at ``start`` of the arena, in the block that begins at ``block``.

    ``keeper``: in the process that owns the arena, the block, which is not freed while it is referred to; set when a
    reference comes from a worker. (No dataclass: a frozen one takes three times as long, and each hop makes four.)
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
