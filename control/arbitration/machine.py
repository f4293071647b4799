"""A machine's budget, and what becomes of it: grants to the apps, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil

from compositions.wording import figure
from control.arbitration.arbiter import Arbiter
from control.arbitration.sharing import Claim
from control.decisions import Grant
from profiler.budget import Budget

PARTS = 32
"""Into which the cores are divided: a thirty-second is less than anybody can foretell."""
AWAY_S = 30.0
"""For so long an app keeps what it had while nobody hears of it: its runner is started again."""


@dataclass(frozen=True, slots=True)
class Terms:
    """Of one app: how much its gain counts against others', and what it has in any case."""

    priority: float = 1.0
    floor: float = 0.0
    """In cores or workers, as the machine's budget is."""


@dataclass(frozen=True, slots=True)
class MachineBudget:
    """Either ``cores`` or ``workers``, for all apps together."""

    cores: float | None = None
    workers: int | None = None
    apps: Mapping[str, Terms] = field(default_factory=dict)

    @property
    def units(self) -> int:
        """In which it is given out."""
        return self.workers if self.workers is not None else PARTS

    @property
    def unit(self) -> float:
        """Cores, or workers, of one."""
        return 1.0 if self.cores is None else self.cores / PARTS

    def limits(self) -> tuple[Budget, ...]:
        """Of 1, 2 … units."""
        return tuple(self.granted(each) for each in range(1, self.units + 1))

    def granted(self, units: int) -> Budget:
        """What an app with so many units may spend."""
        return Budget(workers=units) if self.cores is None else Budget(cores=units * self.unit)

    def terms(self, app: str) -> Terms:
        return self.apps.get(app, Terms())


@dataclass(frozen=True, slots=True)
class _Heard:
    at_s: float
    reach: tuple[float, ...]


class Arbitration:
    """Of one machine. Apps that make no claim, and never made one, are left alone."""

    def __init__(self, budget: MachineBudget) -> None:
        self.budget = budget
        self._arbiter = Arbiter()
        self._heard: dict[str, _Heard] = {}
        self._units: dict[str, int] = {}

    def grants(self, now_s: float, reaches: Mapping[str, tuple[float, ...] | None]) -> Mapping[str, Grant]:
        """By app, for each that runs; ``reaches[app][k]``: how well its objective would be met with ``k + 1`` units;
        ``None``: it cannot be asked now."""
        fresh = {app: _Heard(now_s, reach) for app, reach in reaches.items() if reach is not None}
        kept = {app: heard for app, heard in self._heard.items() if app in reaches and now_s - heard.at_s <= AWAY_S}
        self._heard = kept | fresh
        claims = [self._claim(app, heard) for app, heard in self._heard.items()]
        before, shares = self._units, self._arbiter.share(now_s, claims, self.budget.units)
        self._units = dict(shares)
        return {claim.app: self._grant(claim, before.get(claim.app), shares[claim.app]) for claim in claims}

    def _claim(self, app: str, heard: _Heard) -> Claim:
        terms = self.budget.terms(app)
        return Claim(app, (0.0, *heard.reach), terms.priority, max(1, ceil(terms.floor / self.budget.unit - 1e-9)))

    def _grant(self, claim: Claim, before: int | None, units: int) -> Grant:
        granted = self.budget.granted(units)
        instead = "" if before in (None, units) else f" instead of {self.budget.granted(before or 0).told()}"
        one_more = claim.at(units + 1) - claim.at(units)
        gain = (
            f"with {figure(self.budget.unit)} more it would gain {one_more:.0%}"
            if one_more > 0
            else _enough(claim, units)
        )
        return Grant(
            granted, f"the arbiter gives {granted.told()}{instead}: {claim.at(units):.0%} of the objective, {gain}"
        )


def _enough(claim: Claim, units: int) -> str:
    spare = units - min(units, claim.needs())
    return f"{spare} of {units} parts to spare" if spare else "and more would not help"
