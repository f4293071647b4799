"""The arrivals of the past in bins of equal length, announced loads, and the delays of changes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from math import ceil, sqrt

import numpy as np
import numpy.typing as npt

from profiler.snapshot import Announcement, InputNow

Array = npt.NDArray[np.float64]

BIN_S = 0.5
"""Two turns of the manager."""
KEPT = 1200
"""Ten minutes: a season shows from its second time on, so one of five minutes can be found."""


class Bins:
    """A rate a bin, newest last, at most ``KEPT``."""

    def __init__(self) -> None:
        self._rates = np.zeros(2 * KEPT)
        self._count = 0
        self.total = 0
        """Bins since the start."""

    def __len__(self) -> int:
        return self._count

    @property
    def rates(self) -> Array:
        """Items/s, oldest first; a view."""
        return self._rates[: self._count]

    def add(self, rate_per_s: float) -> None:
        if self._count == len(self._rates):
            self._rates[:KEPT] = self._rates[-KEPT:]
            self._count = KEPT
        self._rates[self._count] = rate_per_s
        self._count += 1
        self.total += 1


class Announced:
    """What was announced and is not over."""

    def __init__(self) -> None:
        self._coming: tuple[Announcement, ...] = ()

    def set(self, announcements: Iterable[Announcement]) -> None:
        """All that there are, in place of those before."""
        self._coming = tuple(announcements)

    @property
    def coming(self) -> tuple[Announcement, ...]:
        return self._coming

    def within(self, now_s: float, horizon_s: float) -> float | None:
        """The highest rate that was announced for some of the time up to ``horizon_s`` from now; what is over is
        forgotten."""
        self._coming = tuple(each for each in self._coming if each.until_s > now_s)
        return max((each.rate_per_s for each in self._coming if each.from_s <= now_s + horizon_s), default=None)


QUICK_S = 0.5
"""What a resize with warm workers takes at least: it is asked for at one turn, there at the next, and what is decided
then is there another turn later."""
_LONGEST_S = 5.0
"""A forecast beyond that helps nobody: what takes so long was held up by something else."""
_REMEMBERED = 16
_SHARE = 0.8
"""Of the changes of late that are to be in time."""


class Delays:
    """Of one app on its machine: on one that is busy with other things each step takes longer."""

    def __init__(self, start_s: float) -> None:
        """``start_s``: what it takes to start a worker, at least."""
        self._start_s = start_s
        self._left: tuple[float, bool] | None = None
        self._took_s: dict[bool, deque[float]] = {cold: deque(maxlen=_REMEMBERED) for cold in (False, True)}

    def left(self, now_s: float, *, cold: bool) -> None:
        """A change was asked for; ``cold``: it needs workers that have to be started."""
        self._left = now_s, cold

    def arrived(self, now_s: float, *, in_place: bool) -> None:
        """It is there. One that was not made ``in_place`` tells of its drain."""
        if self._left is not None and in_place:
            asked_s, cold = self._left
            self._took_s[cold].append(now_s - asked_s)
        self._left = None

    @property
    def quick_s(self) -> float:
        """Until what is decided at the next opportunity is there, where workers are warm: twice what one change takes,
        this one and the next."""
        return min(_LONGEST_S, max(QUICK_S, 2 * self._mostly(cold=False)))

    @property
    def start_s(self) -> float:
        """Return what workers that are not warm take beyond that."""
        return min(_LONGEST_S, max(self._start_s, self._mostly(cold=True) - self._mostly(cold=False)))

    def _mostly(self, *, cold: bool) -> float:
        took_s = sorted(self._took_s[cold])
        return took_s[ceil(_SHARE * len(took_s)) - 1] if took_s else 0.0


# Learn how long a fall of the need must last before workers are released, from how long past falls lasted.
#
# Keeping a worker costs its time; releasing one that is soon needed again costs late items, as much as ``WRONG_S`` of
# a worker. This is the ski rental problem (Karlin, Manasse, Rudolph, Sleator, Competitive snoopy caching, 1988), with
# the wait that would have cost least for the falls that were observed.

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
    """Return what it would have cost to wait so long in each of these falls, in seconds of a worker."""
    return sum(_one(hold_s, lasted_s) for lasted_s in falls_s)


def _one(hold_s: float, lasted_s: float) -> float:
    if lasted_s <= hold_s:
        return lasted_s
    return hold_s + (WRONG_S if lasted_s < LONGEST_S else 0.0)


# Estimate the uncongested arrival rate of a source that may be blocked: while it is, reads show the available room,
# not the demand.
#
# Turns are left out, count and time alike, from one in which the source was blocked until nothing waits any more, as a
# counter leaves out its dead time (Knoll, Radiation detection and measurement, on dead time). Until then the earlier
# estimate stands: turns in between that happen to have room are those in which few items came. What is read all the
# same is a lower bound of the demand. It counts if it is surely more than the estimate, and always for a source that
# never had room, since nothing else is known.

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
