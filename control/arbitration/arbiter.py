"""The arbiter of several apps on one machine: their bids, the division of the machine, and grants that last.

Grants go to the app that gains most, and are withdrawn cautiously.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from math import inf

import numpy as np
import numpy.typing as npt

from control.decisions import Grant
from profiler.budget import FREE, Budget

Limits = tuple[Budget, ...]


@dataclass(frozen=True, slots=True)
class Reach:
    """The outcome that an app expects of a share."""

    met: float
    """How well its objective would be met, 0 … 1 (all of it)."""
    composition: str | None = None
    """Composition that it would run; None: it has none that needs so little."""


@dataclass(frozen=True, slots=True)
class Bid:
    """Of one app."""

    reach: tuple[Reach, ...] | None
    """What it reaches, for each limit that it was asked about; None: unknown now."""
    takes_part: bool = True
    """It keeps to its grant. Other apps keep what they have: pinned or observed ones, those without an objective, and
    those whose strategy takes no budget."""
    uses: Budget = FREE
    """Budget that it uses now."""
    grant: Grant | None = None
    """Grant that it keeps to now."""


Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Claim:
    """Of one app. ``reach[k]``: how well its objective would be met with ``k`` units, 0 … 1 (all of it); what falls in
    between is taken as not falling."""

    app: str
    reach: tuple[float, ...]
    priority: float = 1.0
    floor: int = 0
    """Units that it always has."""

    def at(self, units: int) -> float:
        """Return how well with so many; beyond what was asked about, as with the most."""
        return max(self.reach[: units + 1], default=0.0)

    def needs(self) -> int:
        """The fewest units that reach the most of it."""
        return self.reach.index(max(self.reach)) if self.reach else 0


Shares = Mapping[str, int]
"""Units by app."""


def divide(claims: Sequence[Claim], units: int) -> Shares:
    """At most ``units``: the floors first, then unit by unit to who gains most by it, until nobody gains.

    Gains are those of the smallest concave function above each claim (what comes only with the third unit is counted a
    third with each), so that one unit more never takes one from anybody, nor does a higher priority (Fox, Discrete
    optimization via marginal analysis, 1966).
    """
    shares = _floors(claims, units)
    gains = {each.app: each.priority * np.diff(_concave(_padded(each, units))) for each in claims}
    left = units - sum(shares.values())
    while left > 0:
        found = [(float(gains[app][has]), app) for app, has in shares.items() if has < units and gains[app][has] > 1e-9]
        if not found:
            break
        best = max(gain for gain, _ in found)
        shares[next(app for gain, app in found if gain == best)] += 1
        left -= 1
    return shares


def worth(claims: Sequence[Claim], shares: Shares) -> float:
    """Return what all of them reach together, by their priorities."""
    return sum(each.priority * each.at(shares.get(each.app, 0)) for each in claims)


def _floors(claims: Sequence[Claim], units: int) -> dict[str, int]:
    """Where they are more than there is, one unit after the other, the highest priority first."""
    shares = dict.fromkeys((each.app for each in claims), 0)
    waiting = sorted(claims, key=lambda each: -each.priority)
    left = units
    while left > 0 and any(shares[each.app] < each.floor for each in waiting):
        for each in waiting:
            if left > 0 and shares[each.app] < each.floor:
                shares[each.app] += 1
                left -= 1
    return shares


def _padded(claim: Claim, units: int) -> Array:
    """Return what is reached with 0, 1, 2 … as far as was asked about, and ``units`` at least."""
    reach = np.maximum.accumulate(np.array(claim.reach or (0.0,)))
    return np.pad(reach, (0, max(0, units + 1 - len(reach))), mode="edge")


def _concave(values: Array) -> Array:
    """The smallest concave function that is nowhere below ``values``."""
    corners = [0]
    for right in range(1, len(values)):
        while len(corners) > 1 and _slope(values, corners[-2], corners[-1]) <= _slope(values, corners[-2], right):
            corners.pop()
        corners.append(right)
    return np.interp(np.arange(len(values)), corners, values[corners])


def _slope(values: Array, left: int, right: int) -> float:
    return float(values[right] - values[left]) / (right - left)


FIRST_HOLD_S, LONGEST_HOLD_S = 1.0, 32.0
"""Time for which units that were needed are held: after the first mistaken gift, and after many."""
MISTAKE_S, LONGER_BY = 10.0, 4.0
"""A gift asked back within MISTAKE_S, plus LONGER_BY times the hold time, was a mistake."""
FORGOTTEN_S = 300.0
"""An app that asks for a gift back only after this time holds units for less time again."""
_NOTICEABLE = 0.02
"""Smallest gain that justifies a change, as a share of an objective."""


@dataclass(slots=True)
class _App:
    """The memory of the arbiter for one app."""

    hold_s: float = 0.0
    gave_s: float = -inf
    """Time at which it last gave units away."""
    claims: deque[tuple[float, Claim]] = field(default_factory=deque)


class Arbiter:
    """Called at intervals with all claims. One that does not come is an app that has ended."""

    def __init__(self) -> None:
        self._apps: dict[str, _App] = {}
        self._shares: dict[str, int] = {}

    def share(self, now_s: float, claims: Sequence[Claim], units: int) -> Shares:
        """Units by app, all of them given out; ``now_s`` never falls."""
        self._apps = {each.app: self._apps.get(each.app) or _App() for each in claims}
        held = [self._held(now_s, each) for each in claims]
        best = self._with_rest(held, divide(held, units), units)
        if self._stands(held, units) and worth(held, best) - worth(held, self._shares) < _NOTICEABLE:
            return dict(self._shares)
        self._note(now_s, best)
        self._shares = dict(best)
        return best

    def _held(self, now_s: float, claim: Claim) -> Claim:
        """The least that was claimed to be reached of late with each number of units."""
        app = self._apps[claim.app]
        app.claims.append((now_s, claim))
        while app.claims[0][0] < now_s - app.hold_s:
            app.claims.popleft()
        reaches = zip_longest(*(each.reach for _, each in app.claims), fillvalue=1.0)
        return replace(claim, reach=tuple(min(column) for column in reaches))

    def _with_rest(self, claims: Sequence[Claim], shares: Shares, units: int) -> Shares:
        """What nobody needs stays with who has it, or goes to who has least for what it is worth, for a rising load."""
        given = dict(shares)
        for _ in range(units - sum(given.values())):
            keeps = next((app for app, has in self._shares.items() if app in given and given[app] < has), None)
            poorest = min(claims, key=lambda each: (given[each.app] + 1) / each.priority, default=None)
            if poorest is None:
                break
            given[keeps or poorest.app] += 1
        return given

    def _stands(self, claims: Sequence[Claim], units: int) -> bool:
        """What was given can be had as it is."""
        apps = {each.app for each in claims}
        floors = all(self._shares.get(each.app, 0) >= each.floor for each in claims)
        return apps == set(self._shares) and sum(self._shares.values()) == units and floors

    def _note(self, now_s: float, shares: Shares) -> None:
        """Who gets back what it just gave away keeps it for longer next time; who did well with less, for less."""
        for name, app in self._apps.items():
            before, after = self._shares.get(name), shares[name]
            if before is None or before == after:
                continue
            if after < before:
                app.gave_s = now_s
            elif now_s - app.gave_s <= MISTAKE_S + LONGER_BY * app.hold_s:
                app.hold_s = min(LONGEST_HOLD_S, max(FIRST_HOLD_S, 2 * app.hold_s))
            elif now_s - app.gave_s > FORGOTTEN_S:
                app.hold_s /= 2
