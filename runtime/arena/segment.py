"""Anonymous shared memory: processes get it by a descriptor, and it ends with the last of them, however that one ended.

Each process maps it twice. What it writes is visible to all. What it reads is memory of its own (copy on write): a
stage may write on its frame, and no other process sees that. Linux only: ``memfd_create``, and ``pagemap`` to know
which pages were written on.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import resource
import weakref
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runtime.arena.reference import in_pages

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
    def create(cls, size: int) -> Segment:
        """``size`` bytes, in whole pages, which take memory as they are written. Raises: OSError where there is no such
        memory."""
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
        """Return whether this process has written on ``own`` pages of this part, so that they show no longer what
        all see."""
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
