"""Arrivals of a source that may be held back: what is read of it then is what there was room for, not what users ask.

From a turn in which it was held back until nothing waits any more turns are left out, count and time alike, as a
counter leaves out its dead time (Knoll, Radiation detection and measurement, on dead time): what came before is
believed until then. Turns in between that happen to have room are those in which few came. What is read all the same is
the least that is asked for: where that is surely more than was believed, it counts, and so it does of who never had
room, for nothing else is known.
"""

from __future__ import annotations

from math import sqrt

from profiler.snapshot import InputNow

_MOST = 0.1
"""Share of a turn for which there may be no room and its count still tells the rate, to that share."""
_SURELY = 3.0
"""Standard errors of a count by which more was read than was believed."""


class Unhindered:
    """Of one app: the clock and the count of the turns that tell."""

    def __init__(self) -> None:
        self._turned = 0.0, 0, 0.0
        """At the latest turn: the time, what had arrived, for how long there had been no room."""
        self._left_out_s, self._left_out = 0.0, 0
        """Since the start."""
        self._behind = False
        """It was held back, and what waited then is not gone."""
        self._held: tuple[float, int] | None = None
        """When the turns that are left out now began, and what had arrived by then."""
        self._tells = True
        """What is read without room tells: until there was room, and where it is surely more than was believed."""

    def count(self, now_s: float, seen: InputNow, rate_per_s: float, *, waiting: bool) -> tuple[float, int] | None:
        """The time less what was left out, and the arrivals less those; ``None``: this turn tells nothing.

        ``rate_per_s``: what is believed; ``waiting``: something still waits.
        """
        arrived, held_back_s = seen.arrived, seen.held_back_s
        then_s, arrived_then, held_then_s = self._turned
        self._turned = now_s, arrived, held_back_s
        hindered = held_back_s - held_then_s > _MOST * (now_s - then_s)
        self._behind = hindered or (self._behind and waiting)
        if not self._behind:
            self._leave_out(then_s, arrived_then)
            self._tells = False
        elif not self._tells:
            since_s, arrived_since = self._held = self._held or (then_s, arrived_then)
            expected = rate_per_s * (now_s - since_s)
            self._tells = arrived - arrived_since > expected + _SURELY * sqrt(max(0.0, expected))
            if not self._tells:
                return None
            self._held = None
        return now_s - self._left_out_s, arrived - self._left_out

    def _leave_out(self, until_s: float, arrived: int) -> None:
        if self._held is not None:
            self._left_out_s += until_s - self._held[0]
            self._left_out += arrived - self._held[1]
            self._held = None
