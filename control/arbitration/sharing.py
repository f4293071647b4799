"""Who gets how much of a machine, by what each claims to make of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Claim:
    """Of one app. ``reach[k]``: how well its objective would be met with ``k`` units, 0 … 1 (all of it); what falls in
    between is taken as not falling."""

    app: str
    reach: tuple[float, ...]
    priority: float = 1.0
    floor: int = 0
    """Units that it has in any case."""

    def at(self, units: int) -> float:
        """How well with so many; beyond what was asked about, as with the most."""
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
    """What all of them reach together, by their priorities."""
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
    """What is reached with 0, 1, 2 … as far as was asked about, and ``units`` at least."""
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
