"""Due times of the items of a paced stream: the slots of an input rate, in order, each with its own time. Pure.

Due times do not change if the source is blocked. A latency measured from the read would leave out the time in which
items could not be read, and items that were never read: "coordinated omission" (Tene, "How not to measure latency",
2013).
"""

import math
from collections import deque
from typing import NamedTuple

from apps.rates import Rate, rate_now

STEP_S = 0.025
"""Step width of the integration of a pattern; half of the longest wait between two updates."""
_MOST_STEPS = 2400
"""Maximum number of steps per update, which is a minute; after a longer pause the steps are wider."""
_EPSILON = 1e-6
"""Rounding tolerance, in slots."""


class Offer(NamedTuple):
    """The items due from a source so far. ``behind``: those due and not read yet; the first is due for ``lag_s``."""

    slots: int
    missed: int
    """Number of slots that passed while the source was blocked and were not made up for; of ``push``, refused items."""
    behind: int
    lag_s: float


class _Line:
    """A piecewise linear function with ascending points, read at ascending x; earlier points are forgotten."""

    def __init__(self, x: float, y: float) -> None:
        self._points = deque([(x, y)])

    def __len__(self) -> int:
        return len(self._points)

    def add(self, x: float, y: float, *, instead: bool) -> None:
        """Add a point; ``instead``: replace the last one, unless it is the only one."""
        if instead and len(self._points) > 1:
            self._points.pop()
        self._points.append((x, y))

    def at(self, x: float) -> float:
        """Return the first y at ``x``; outside the points, the y of the nearest end."""
        points = self._points
        while len(points) > 1 and points[1][0] < x - _EPSILON:
            points.popleft()
        (left, low), (right, high) = points[0], points[min(1, len(points) - 1)]
        if x <= left or right <= left:
            return low if x <= left else high
        return low + (high - low) * min(1.0, (x - left) / (right - left))


class Schedule:
    """The slots of an input rate: ``∫ rate dt`` slots are due by a time, the first as soon as the rate is above zero.

    A late source makes up for ``catch_up_items`` or ``catch_up_s`` of the stream, whichever is more; further slots are
    dropped, the oldest first, and counted. Times in seconds.
    """

    def __init__(self, pattern: Rate, now_s: float, *, catch_up_items: float, catch_up_s: float) -> None:
        self._catch_up = (catch_up_items, catch_up_s)
        self._pattern, self._started_s, self._started_at = pattern, now_s, 0.0
        """``_started_at``: number of slots taken or dropped when the pattern was set."""
        self._now_s, self._total = now_s, 0.0
        self._marked_s = -math.inf
        self._slots_by, self._time_of = _Line(now_s, 0.0), _Line(0.0, now_s)
        self._position = 0.0
        """Number of slots taken or dropped."""
        self.missed = 0

    @property
    def due(self) -> float:
        """Number of slots that are due and not taken, with the elapsed fraction of the next one."""
        return self._total - self._position

    def rate_per_s(self, now_s: float) -> float:
        return rate_now(self._pattern, max(0.0, now_s - self._started_s), self._position - self._started_at)

    def replace(self, pattern: Rate, now_s: float) -> None:
        """Set another pattern, with elapsed time zero; slots that are due stay due."""
        self.advance(now_s)
        self._pattern, self._started_s, self._started_at = pattern, now_s, self._position

    def advance(self, now_s: float) -> None:
        """Integrate the pattern up to ``now_s``, by the midpoint rule, and drop slots that are too old."""
        from_s, steps = self._now_s, min(_MOST_STEPS, math.ceil((now_s - self._now_s) / STEP_S))
        for step in range(steps):
            width_s = (now_s - from_s) / steps
            middle_s = from_s + (step + 0.5) * width_s
            self._begin(middle_s)
            self._mark(from_s + (step + 1) * width_s, self._total + width_s * self.rate_per_s(middle_s))
        self._begin(now_s)
        self._give_up(now_s)

    def take(self, now_s: float) -> float | None:
        """Take the next slot, and return its due time; None if it is not due by ``now_s``."""
        return next(iter(self.take_all(now_s, 1)), None)

    def take_all(self, now_s: float, most: int) -> list[float]:
        """Take up to ``most`` slots that are due by ``now_s``, and return their due times."""
        self.advance(now_s)
        count = min(most, int(self.due + _EPSILON))
        first = self._position
        self._position += count
        return [min(now_s, self._time_of.at(first + each)) for each in range(1, count + 1)]

    def give_back(self, slots: int) -> None:
        """Make the latest ``slots`` taken slots due again."""
        self._position -= slots

    def lag_s(self, now_s: float) -> float:
        """Return the time for which the next slot has been due; 0 if it is not due."""
        self.advance(now_s)
        return max(0.0, now_s - self._time_of.at(self._position + 1.0)) if self.due >= 1.0 else 0.0

    def pass_over(self, now_s: float) -> None:
        """Skip the slots up to now, as there was nothing to take; only the next slot stays."""
        missed = self.missed
        self.advance(now_s)
        self.missed = missed
        self._position = max(self._position, self._total - 1.0)

    def next_due_s(self, now_s: float) -> float:
        """Return the time of the next slot if the rate stays as it is; infinite at rate zero."""
        rate = self.rate_per_s(now_s)
        return math.inf if rate <= 0 else now_s + max(0.0, 1.0 - self.due) / rate

    def _begin(self, at_s: float) -> None:
        """Make the first slot due at once, when the rate first exceeds zero."""
        if self._total == 0.0 and self.rate_per_s(at_s) > 0:
            self._mark(self._now_s, 1.0)

    def _mark(self, at_s: float, total: float) -> None:
        """Add a point to both functions; merge points closer than half a step, as a fast source updates very often."""
        close = at_s - self._marked_s < STEP_S / 2
        self._slots_by.add(at_s, total, instead=close)
        self._time_of.add(total, at_s, instead=close)
        self._now_s, self._total = at_s, total
        self._marked_s = self._marked_s if close else at_s

    def _give_up(self, now_s: float) -> None:
        """Drop slots that are too old, except the next one and those that a late source may make up for."""
        items, lag_s = self._catch_up
        too_old = self._slots_by.at(now_s - lag_s) - self._position
        excess = math.floor(min(self.due - items, too_old) - 1.0 + _EPSILON)
        if excess > 0:
            self._position += excess
            self.missed += excess
