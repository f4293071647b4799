"""How long a fall of the need must last before workers are given back: learned from how long falls have lasted.

To keep a worker costs its time; to give one back that is wanted again soon costs late items, as much as ``WRONG_S`` of
a worker. That is the ski rental (Karlin, Manasse, Rudolph, Sleator, Competitive snoopy caching, 1988), with the wait
that would have cost least for the falls that were seen.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

WRONG_S = 4.0
FOLLOWED_S = 1.0
"""Of a fall that has lasted for as long as it has to, and goes on: two bins, so that one low count tells nothing."""
LONGEST_S = 60.0
"""A fall that lasted so long was one for good: giving back was right."""
_HOLDS_S = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
_KEPT, _TELLING = 20, 2
"""Falls that are remembered, and from how many on they tell."""
_FELL, _BACK = 0.9, 0.95
"""Of what was needed before: below, a fall begins; above, it ends."""


class Falls:
    """Watches the need, items/s, and the falls in it."""

    def __init__(self, first_s: float) -> None:
        """``first_s``: how long to hold until two falls have been seen."""
        self._lasted_s: deque[float] = deque(maxlen=_KEPT)
        self._top = 0.0
        self._since_s: float | None = None
        self.hold_s = first_s

    def note(self, now_s: float, need: float) -> None:
        """The need as of now."""
        if self._since_s is not None and need < _BACK * self._top and now_s - self._since_s < LONGEST_S:
            return
        if self._since_s is not None:
            self._end(now_s - self._since_s)
            self._top = need
        if need < _FELL * self._top:
            self._since_s = now_s
        else:
            self._top = max(self._top, need)

    def holds_s(self, now_s: float) -> float:
        """For how long what was needed is kept: one wait a fall, as the costs have it, not one for each step down of a
        load that falls slowly."""
        lasts = self._since_s is not None and now_s - self._since_s >= self.hold_s
        return min(self.hold_s, FOLLOWED_S) if lasts else self.hold_s

    def _end(self, lasted_s: float) -> None:
        self._since_s = None
        self._lasted_s.append(lasted_s)
        if len(self._lasted_s) >= _TELLING:
            self.hold_s = min(_HOLDS_S, key=lambda hold_s: cost_s(hold_s, self._lasted_s))


def cost_s(hold_s: float, falls_s: Iterable[float]) -> float:
    """What it would have cost to wait so long in each of these falls, in seconds of a worker."""
    return sum(_one(hold_s, lasted_s) for lasted_s in falls_s)


def _one(hold_s: float, lasted_s: float) -> float:
    if lasted_s <= hold_s:
        return lasted_s
    return hold_s + (WRONG_S if lasted_s < LONGEST_S else 0.0)
