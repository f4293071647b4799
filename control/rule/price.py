"""The price of a late item: the dual variable of the objective."""

import math
from collections import deque

from control.rule.settings import RuleSettings

WINDOW_S = 300.0
"""Length of the stretches in each of which the objective should hold."""
_MOST = 400.0
"""Highest price."""
_LEAST_ITEMS = 20.0


class Price:
    """Rises while more items of the last window are late than half of those aimed at, and falls while fewer are (dual
    ascent).

    Within a window it rises faster the more of the late items that may be are used up, as the next window does not make
    up for this one; and for the same reason it falls slower than it rises from window to window.
    """

    def __init__(self, settings: RuleSettings) -> None:
        self._settings = settings
        self._turns = deque[tuple[float, float, float]]()
        self._delivered = self._late = 0.0
        self._used = 0.0
        self._dual = 0.0

    @property
    def late_share(self) -> float:
        """Return the share of late items in the last window."""
        return max(0.0, self._late) / self._delivered if self._delivered > 0 else 0.0

    @property
    def in_work(self) -> float:
        """Return the price in the work that an item takes: 3 means that an item which comes late costs as much as
        three that are worked on."""
        settings = self._settings
        raised = settings.usual_price * math.exp(settings.steepness * min(self._used, 3.0) + self._dual)
        return min(_MOST, raised)

    def add(self, at_s: float, elapsed_s: float, delivered: float, late: float, expected: float, share: float) -> None:
        """Note items of a turn. ``expected``: items of a whole window; ``share``: that which has to be in time."""
        settings = self._settings
        self._turns.append((at_s, delivered, late))
        self._delivered += delivered
        self._late += late
        while self._turns[0][0] < at_s - WINDOW_S:
            _, delivered, late = self._turns.popleft()
            self._delivered -= delivered
            self._late -= late
        may_be = max(1e-3, 1 - share) * max(self._delivered, expected, _LEAST_ITEMS)
        self._used = max(0.0, self._late) / may_be / settings.used_share
        off = min(self._used, 2.0) - 0.5
        self._dual += settings.dual_step * elapsed_s * (off if off > 0 else settings.fall * off)
        least, most = math.log(settings.least_price / settings.usual_price), math.log(_MOST / settings.usual_price)
        self._dual = min(most, max(least, self._dual))
