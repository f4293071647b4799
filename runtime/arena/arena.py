"""The arena of a runner: shared memory in blocks for large frames, each freed when no object refers to it."""

import logging
import socket
import threading
from bisect import bisect_left
from collections import deque
from contextlib import suppress
from typing import Any

from runtime.arena.reference import ArenaSettings, Block, Reference, Segment, in_pages, memory_bytes


class Departed:
    def __init__(self) -> None:
        self._rooms: dict[socket.socket, list[Block]] = {}

    def add(self, worker: socket.socket, room: list[Block]) -> None:
        """Tell a removed worker to end, and keep its room until its side of the connection is closed."""
        with suppress(OSError):  # the worker's side is closed
            worker.shutdown(socket.SHUT_WR)
        self._rooms[worker] = room

    def tidy(self) -> None:
        """Free the room of workers that have ended."""
        for worker in [each for each in self._rooms if _has_ended(each)]:
            worker.close()
            del self._rooms[worker]

    def close(self) -> None:
        """May be called twice."""
        for worker in self._rooms:
            worker.close()
        self._rooms.clear()


def _has_ended(worker: socket.socket) -> bool:
    """Return whether the worker's socket is closed, which happens after its last write to memory. Discard input."""
    try:
        while worker.recv(1 << 16, socket.MSG_DONTWAIT):
            pass
        return True
    except BlockingIOError:
        return False
    except OSError:
        return True


class Extents:
    """Free ranges in order, none empty, no two of them adjacent."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._starts = [0] if size else []
        self._stops = [size] if size else []

    def take(self, size: int) -> int | None:
        """Take ``size`` free bytes, and return their start; None if no free range is so large."""
        for index, start in enumerate(self._starts):
            if self._stops[index] - start >= size:
                self._starts[index] += size
                if self._starts[index] == self._stops[index]:
                    del self._starts[index], self._stops[index]
                return start
        return None

    def give(self, start: int, size: int) -> None:
        """Free ``size`` taken bytes from ``start`` on."""
        index, stop = bisect_left(self._starts, start), start + size
        if index < len(self._starts) and self._starts[index] == stop:
            stop = self._stops[index]
            del self._starts[index], self._stops[index]
        if index and self._stops[index - 1] == start:
            self._stops[index - 1] = stop
        else:
            self._starts.insert(index, start)
            self._stops.insert(index, stop)

    @property
    def used_bytes(self) -> int:
        return self._size - sum(self._stops) + sum(self._starts)

    @property
    def used_to(self) -> int:
        """The end of the last taken byte: all memory above is free."""
        return self._starts[-1] if self._stops and self._stops[-1] == self._size else self._size


log = logging.getLogger(__name__)
_WARM_BYTES = 256 << 20
"""Free memory above the used part that is not returned to the system: new pages cost ten times a copy."""


class Arena:
    """Allocates blocks of a segment, and frees them. Thread-safe."""

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self._free = Extents(segment.size)
        self._lock = threading.Lock()
        self._returned: deque[tuple[int, int]] = deque()
        """Blocks to free; the garbage collector may return one at any time, even in the middle of ``take``."""
        self._departed = Departed()
        self._warm_to = 0
        """The position above which pages have no memory."""
        self._closed = False

    def take(self, size: int) -> Block | None:
        """Allocate at least ``size`` bytes; return None if there is no room."""
        size = in_pages(size)
        with self._lock:
            self._departed.tidy()
            self._take_back()
            start = None if self._closed else self._free.take(size)
            if start is None:
                return None
            self._warm_to = max(self._warm_to, start + size)
        return Block(start, size, self._give_back)

    def store(self, frame: Any) -> Reference | None:
        """Store a bytes-like frame, and return a reference to it; None if there is no room."""
        size = len(frame)
        block = self.take(size)
        if block is None:
            return None
        self.segment.write(block.start, frame)
        return Reference(block.start, block.start, size, block)

    def leave_to(self, worker: socket.socket, room: list[Block]) -> None:
        """Keep the room of a removed worker, which may write to it until its side of the connection is closed."""
        with self._lock:
            self._departed.add(worker, room)

    @property
    def used_bytes(self) -> int:
        with self._lock:
            self._take_back()
            return self._free.used_bytes

    def close(self) -> None:
        """Refuse further allocations; blocks that are referred to stay until they are not. May be called twice."""
        with self._lock:
            self._closed = True
            self._departed.close()
            self._take_back()
            self.segment.forget_descriptor()

    def _give_back(self, start: int, size: int) -> None:
        self._returned.append((start, size))
        if self._lock.acquire(blocking=False):  # otherwise the holder frees the block, now or next time
            try:
                self._take_back()
            finally:
                self._lock.release()

    def _take_back(self) -> None:
        while self._returned:
            self._free.give(*self._returned.popleft())
        warm_to = self._free.used_to + (0 if self._closed else _WARM_BYTES)
        if warm_to < self._warm_to:
            self.segment.discard(warm_to, self._warm_to)
            self._warm_to = warm_to


def open_arena(settings: ArenaSettings) -> Arena | None:
    """Open an arena; return None if the settings ask for none or the system has no such memory (frames are copied)."""
    size = int(settings.shared_memory * memory_bytes())
    if not size:
        return None
    try:
        return Arena(Segment.create(size))
    except OSError as error:
        log.warning("no shared memory, so large frames are copied to workers: %s", error)
        return None
