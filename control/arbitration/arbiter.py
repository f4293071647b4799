"""The arbiter of several apps on one machine: it divides the machine's units (workers or parts of its cores) by bids.

Each unit goes to the app that gains most, and is withdrawn cautiously.
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
    """An app's expected result with a share of the machine."""

    met: float
    """Part of its objective that would be met, 0 … 1 (all of it)."""
    composition: str | None = None
    """Composition that the app would run; None: all its compositions need more."""


@dataclass(frozen=True, slots=True)
class Bid:
    """The bid of one app."""

    reach: tuple[Reach, ...] | None
    """Expected result for each limit in the request; None: unknown now."""
    takes_part: bool = True
    """True if the app keeps to its grant. Other apps keep their workers: pinned or observed apps, apps without an
    objective, and apps whose strategy accepts no budget."""
    uses: Budget = FREE
    """Budget that the app uses now."""
    grant: Grant | None = None
    """The app's present grant."""


Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Claim:
    """The claim of one app. ``reach[k]``: part of its objective that would be met with ``k`` units, 0 … 1 (all of it);
    values that are lower than one before are ignored."""

    app: str
    reach: tuple[float, ...]
    priority: float = 1.0
    floor: int = 0
    """Number of units that the app always gets."""

    def at(self, units: int) -> float:
        """Return the part of the objective that is met with this many units."""
        return max(self.reach[: units + 1], default=0.0)

    def needs(self) -> int:
        """Return the fewest units with the best result."""
        return self.reach.index(max(self.reach)) if self.reach else 0


Shares = Mapping[str, int]
"""Number of units by app."""


def divide(claims: Sequence[Claim], units: int) -> Shares:
    """Divide at most ``units``: first the floors, then each unit to the app that gains most, until no app gains.

    Gains are those of the smallest concave function above each claim: a gain that needs three units counts a third for
    each of them. So an additional unit never takes a unit from any app, and a higher priority never takes one from its
    own app (Fox, Discrete optimization via marginal analysis, 1966).
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
    """Return the sum of all apps' results with these shares, weighted by priority."""
    return sum(each.priority * each.at(shares.get(each.app, 0)) for each in claims)


def _floors(claims: Sequence[Claim], units: int) -> dict[str, int]:
    """Return the guaranteed units by app. If ``units`` do not suffice, apps take turns, the highest priority first."""
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
    """Return the non-decreasing results with 0, 1, 2 … units, extended to at least ``units``."""
    reach = np.maximum.accumulate(np.array(claim.reach or (0.0,)))
    return np.pad(reach, (0, max(0, units + 1 - len(reach))), mode="edge")


def _concave(values: Array) -> Array:
    """Return the smallest concave function that is nowhere below ``values``."""
    corners = [0]
    for right in range(1, len(values)):
        while len(corners) > 1 and _slope(values, corners[-2], corners[-1]) <= _slope(values, corners[-2], right):
            corners.pop()
        corners.append(right)
    return np.interp(np.arange(len(values)), corners, values[corners])


def _slope(values: Array, left: int, right: int) -> float:
    return float(values[right] - values[left]) / (right - left)


FIRST_HOLD_S, LONGEST_HOLD_S = 1.0, 32.0
"""Time for which an app keeps units after it needed them: after the first mistaken release, and at most."""
MISTAKE_S, LONGER_BY = 10.0, 4.0
"""A release was a mistake if the app needs units again within MISTAKE_S plus LONGER_BY times its hold time."""
FORGOTTEN_S = 300.0
"""If an app needs units again only after this time, its hold time is halved."""
_NOTICEABLE = 0.02
"""Smallest gain that justifies a change, as a share of an objective."""


@dataclass(slots=True)
class _App:
    """The memory of the arbiter for one app."""

    hold_s: float = 0.0
    gave_s: float = -inf
    """Time at which the app last released units."""
    claims: deque[tuple[float, Claim]] = field(default_factory=deque)


class Arbiter:
    """Divides the units of one machine at intervals, and remembers the shares."""

    def __init__(self) -> None:
        self._apps: dict[str, _App] = {}
        self._shares: dict[str, int] = {}

    def share(self, now_s: float, claims: Sequence[Claim], units: int) -> Shares:
        """Return the units by app; all ``units`` are divided. An app without a claim has ended; ``now_s`` increases."""
        self._apps = {each.app: self._apps.get(each.app) or _App() for each in claims}
        held = [self._held(now_s, each) for each in claims]
        best = self._with_rest(held, divide(held, units), units)
        if self._stands(held, units) and worth(held, best) - worth(held, self._shares) < _NOTICEABLE:
            return dict(self._shares)
        self._note(now_s, best)
        self._shares = dict(best)
        return best

    def _held(self, now_s: float, claim: Claim) -> Claim:
        """Return the claim with the lowest result of the app's hold time, for each number of units."""
        app = self._apps[claim.app]
        app.claims.append((now_s, claim))
        while app.claims[0][0] < now_s - app.hold_s:
            app.claims.popleft()
        reaches = zip_longest(*(each.reach for _, each in app.claims), fillvalue=1.0)
        return replace(claim, reach=tuple(min(column) for column in reaches))

    def _with_rest(self, claims: Sequence[Claim], shares: Shares, units: int) -> Shares:
        """Return shares of all units: a spare one stays with its app or goes to the app with the fewest by priority."""
        given = dict(shares)
        for _ in range(units - sum(given.values())):
            keeps = next((app for app, has in self._shares.items() if app in given and given[app] < has), None)
            poorest = min(claims, key=lambda each: (given[each.app] + 1) / each.priority, default=None)
            if poorest is None:
                break
            given[keeps or poorest.app] += 1
        return given

    def _stands(self, claims: Sequence[Claim], units: int) -> bool:
        """Return True if the present shares are still possible: the same apps and units, and all floors are met."""
        apps = {each.app for each in claims}
        floors = all(self._shares.get(each.app, 0) >= each.floor for each in claims)
        return apps == set(self._shares) and sum(self._shares.values()) == units and floors

    def _note(self, now_s: float, shares: Shares) -> None:
        """Record the new shares: a mistaken release doubles an app's hold time, a good one may halve it."""
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
