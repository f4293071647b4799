"""The price of a late item: the dual variable of the objective."""

import math
from collections import deque

from control.rule.settings import RuleSettings

WINDOW_S = 300.0
"""Length of the windows, in seconds; the objective should be met in each of them."""
_MOST = 400.0
"""Highest price."""
_LEAST_ITEMS = 20.0


class Price:
    """The price of a late item for one goal. It rises while the late items of the last window exceed half of the number
    aimed at, faster the more of the allowed ones are used up, and otherwise falls more slowly (dual ascent): the next
    window does not make up for this one."""

    def __init__(self, settings: RuleSettings) -> None:
        self._settings = settings
        self._turns = deque[tuple[float, float, float]]()
        self._delivered = self._late = 0.0
        self._used = 0.0
        self._dual = 0.0

    @property
    def late_share(self) -> float:
        """Share of late items in the last window."""
        return max(0.0, self._late) / self._delivered if self._delivered > 0 else 0.0

    @property
    def in_work(self) -> float:
        """The price in units of one item's work: 3 means that a late item costs as much as the work on three items."""
        settings = self._settings
        raised = settings.usual_price * math.exp(settings.steepness * min(self._used, 3.0) + self._dual)
        return min(_MOST, raised)

    def add(self, at_s: float, elapsed_s: float, delivered: float, late: float, expected: float, share: float) -> None:
        """Record a turn's items. ``expected``: items of a whole window; ``share``: share that must be in time."""
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
