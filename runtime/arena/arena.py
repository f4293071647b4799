"""The arena of a runner: blocks for large frames, each free again when nobody refers to it."""

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
        """Tells the worker that it is over, and keeps its room until its side of the connection has ended."""
        with suppress(OSError):  # its side has ended
            worker.shutdown(socket.SHUT_WR)
        self._rooms[worker] = room

    def tidy(self) -> None:
        """Lets go the room of those that have ended."""
        for worker in [each for each in self._rooms if _has_ended(each)]:
            worker.close()
            del self._rooms[worker]

    def close(self) -> None:
        """May be called twice."""
        for worker in self._rooms:
            worker.close()
        self._rooms.clear()


def _has_ended(worker: socket.socket) -> bool:
    """A process's sockets are closed after it has left its memory. What it still says is not heard."""
    try:
        while worker.recv(1 << 16, socket.MSG_DONTWAIT):
            pass
        return True
    except BlockingIOError:
        return False
    except OSError:
        return True


class Extents:
    """Free parts in order, none empty, no two of them adjacent."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._starts = [0] if size else []
        self._stops = [size] if size else []

    def take(self, size: int) -> int | None:
        """The start of ``size`` bytes that are free no longer; None when no part is so large."""
        for index, start in enumerate(self._starts):
            if self._stops[index] - start >= size:
                self._starts[index] += size
                if self._starts[index] == self._stops[index]:
                    del self._starts[index], self._stops[index]
                return start
        return None

    def give(self, start: int, size: int) -> None:
        """``size`` bytes from ``start`` on, which were taken, are free again."""
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
        """The end of what is taken: all above is free."""
        return self._starts[-1] if self._stops and self._stops[-1] == self._size else self._size


log = logging.getLogger(__name__)
_WARM_BYTES = 256 << 20
"""So much above what is in use keeps its memory: pages that are new cost ten times a copy."""


class Arena:
    """From any thread."""

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self._free = Extents(segment.size)
        self._lock = threading.Lock()
        self._returned: deque[tuple[int, int]] = deque()
        """Blocks that were given back, perhaps in the middle of taking one: the collector runs anywhere."""
        self._departed = Departed()
        self._warm_to = 0
        """All above has no memory."""
        self._closed = False

    def take(self, size: int) -> Block | None:
        """At least ``size`` bytes, or None when there is no room."""
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
        """Writes a bytes-like frame, and refers to it; None when there is no room."""
        size = len(frame)
        block = self.take(size)
        if block is None:
            return None
        self.segment.write(block.start, frame)
        return Reference(block.start, block.start, size, block)

    def leave_to(self, worker: socket.socket, room: list[Block]) -> None:
        """Its worker is no longer ours, but may write into ``room`` until its side of the connection has ended."""
        with self._lock:
            self._departed.add(worker, room)

    @property
    def used_bytes(self) -> int:
        with self._lock:
            self._take_back()
            return self._free.used_bytes

    def close(self) -> None:
        """Nothing is taken any more; what is referred to stays until it is not. May be called twice."""
        with self._lock:
            self._closed = True
            self._departed.close()
            self._take_back()
            self.segment.forget_descriptor()

    def _give_back(self, start: int, size: int) -> None:
        self._returned.append((start, size))
        if self._lock.acquire(blocking=False):  # whoever has it takes back as well, now or the next time
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
    """None where none is wanted, or the system has no such memory: then all frames are copied."""
    size = int(settings.shared_memory * memory_bytes())
    if not size:
        return None
    try:
        return Arena(Segment.create(size))
    except OSError as error:
        log.warning("large frames are copied, not shared: %s", error)
        return None
