"""The arbiter of several apps on one machine: gives to who gains most, and takes back with care."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from math import inf

from control.arbitration.sharing import Claim, Shares, divide, worth

FIRST_HOLD_S, LONGEST_HOLD_S = 1.0, 32.0
"""What was needed so short a time ago is not given away: after the first gift that was a mistake, and after many."""
MISTAKE_S, LONGER_BY = 10.0, 4.0
"""A gift that is asked back within so long was one, and within so many times what it is held for."""
FORGOTTEN_S = 300.0
"""Who has done without for so long gives more quickly again."""
_NOTICEABLE = 0.02
"""Of an objective, what a change must bring."""


@dataclass(slots=True)
class _App:
    """What is remembered of one."""

    hold_s: float = 0.0
    gave_s: float = -inf
    """When it last gave something away."""
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
        """What nobody needs stays with who has it, and else goes to who has least for what it is worth: it is there
        when a load rises."""
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
        """Who gets back what it gave away a moment ago keeps it for longer next time; who did well with less, for
        less."""
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
