"""Which parts of a range of bytes are free: the lowest that fits is taken, so that what is used stays together."""

from __future__ import annotations

from bisect import bisect_left


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
