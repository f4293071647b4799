"""Detect a ceiling of the throughput that more workers do not raise: a database of four connections, memory bandwidth.

Two throughputs are compared, both while no worker lacks items: before and after workers were added. If the gain is
certainly much too small, the throughput is a ceiling for a while, which doubles each time it is confirmed.
"""

import math
from collections import deque

_TURNS, _LAST_TURNS, _ITEMS = 12, 40, 20.0
"""Smallest and largest number of turns for a known throughput, and smallest number of items."""
_IN_VAIN = 0.4
"""Workers gained nothing if the throughput rose by less than this part of the increase in workers, as logarithms."""
_ERRORS = 3.0
"""Number of standard errors by which the gain must fall short."""
_RECENT_S, _BELIEVED_S, _LONGEST_S = 60.0, 60.0, 1800.0


class _Level:
    """The throughput in the latest turns with this number of workers in which no worker lacked items."""

    def __init__(self, workers: int) -> None:
        self.workers, self.at_s = workers, -math.inf
        self._per_s = deque[float](maxlen=_LAST_TURNS)
        self._items = deque[float](maxlen=_LAST_TURNS)

    def add(self, at_s: float, elapsed_s: float, finished: float) -> None:
        self.at_s = at_s
        self._items.append(finished)
        self._per_s.append(finished / elapsed_s)

    @property
    def known(self) -> bool:
        return len(self._per_s) >= _TURNS and sum(self._items) >= _ITEMS

    @property
    def per_s(self) -> float:
        return sum(self._per_s) / len(self._per_s)

    @property
    def error(self) -> float:
        """Standard error of the throughput's logarithm."""
        count, mean = len(self._per_s), self.per_s
        variance = sum((each - mean) ** 2 for each in self._per_s) / (count - 1)
        return math.sqrt(variance / count) / max(mean, 1e-9)


class Ceiling:
    """Compares the throughput of a pipeline with different numbers of workers."""

    def __init__(self) -> None:
        self._level, self._before = _Level(0), list[_Level]()
        self._full = False
        self._believed_s, self._until_s = _BELIEVED_S, -math.inf
        self._per_s = math.inf

    def look(self, at_s: float, elapsed_s: float, workers: int, finished: float, *, full: bool) -> None:
        """Record a turn, with the items ``finished`` in it. ``full``: no worker lacks items at its end."""
        was_full, self._full = self._full, full
        if workers != self._level.workers:
            kept = [each for each in (*self._before, self._level) if each.known and at_s - each.at_s < _RECENT_S]
            self._before = [each for each in kept if each.workers < workers]
            self._level = _Level(workers)
            return
        if not (full and was_full):
            return
        self._level.add(at_s, elapsed_s, finished)
        if self._level.known:
            for before in self._before:
                self._compare(before, at_s)

    def per_s(self, at_s: float) -> float:
        """Return the ceiling of the throughput, in items/s; infinite if none is known."""
        return self._per_s if at_s < self._until_s else math.inf

    def _compare(self, before: _Level, at_s: float) -> None:
        level = self._level
        should = math.log(level.workers / before.workers)
        gained = math.log(max(level.per_s, 1e-9) / max(before.per_s, 1e-9))
        error = _ERRORS * math.hypot(level.error, before.error)
        if gained + error < _IN_VAIN * should:
            if at_s >= self._until_s:
                self._per_s, self._until_s = max(level.per_s, before.per_s), at_s + self._believed_s
                self._believed_s = min(_LONGEST_S, 2 * self._believed_s)
        elif gained - error > _IN_VAIN * should:
            self._believed_s, self._until_s = _BELIEVED_S, -math.inf
