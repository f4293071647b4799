"""The budget of a machine, and the grants made from it to apps, each with its reason."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil

from control.arbitration.arbiter import Arbiter, Bid, Claim
from control.decisions import Grant
from profiler.budget import Budget

PARTS = 32
"""Number of parts into which the cores are divided: predictions are not accurate enough for smaller parts."""
_NOTICEABLE = 0.01
"""Smallest gain that is worth reporting, as a share of an objective."""
AWAY_S = 30.0
"""Time for which an app keeps its share without a report, because its runner may be restarting."""

BUSY_S = 30.0
"""Time over which the maximum use of cores by an app without a claim counts: measurements of busy cores vary."""


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of one app: the weight of its gain, and its guaranteed share."""

    priority: float = 1.0
    floor: float = 0.0
    """Guaranteed number of workers, or of cores if the machine's budget has no limit of workers."""


@dataclass(frozen=True, slots=True)
class MachineBudget:
    """Limits of ``workers``, ``cores`` or both, for all apps together; an app gets the same part of both."""

    cores: float | None = None
    workers: int | None = None
    apps: Mapping[str, Terms] = field(default_factory=dict)

    @property
    def units(self) -> int:
        """Number of units into which the budget is divided."""
        return self.workers if self.workers is not None else PARTS

    def limits(self) -> tuple[Budget, ...]:
        """Return the budgets of 1, 2 … units."""
        return tuple(self.granted(each) for each in range(1, self.units + 1))

    def granted(self, units: int) -> Budget:
        """Return the budget of an app with this many units."""
        cores = None if self.cores is None else self.cores * units / self.units
        return Budget(None if self.workers is None else units, cores)

    def units_of(self, amount: float) -> int:
        """Return the number of units for ``amount`` workers, or cores if the budget has no limit of workers."""
        unit = 1.0 if self.workers is not None else (self.cores or 1.0) / PARTS
        return ceil(amount / max(unit, 1e-9) - 1e-9)  # any budget above 0 is accepted

    def terms(self, app: str) -> Terms:
        return self.apps.get(app, Terms())


@dataclass(frozen=True, slots=True)
class _Heard:
    at_s: float
    bid: Bid

    def says_more_than(self, before: "_Heard | None") -> bool:
        """Return True if this bid replaces the one ``before``: an app without a result for now keeps its last bid."""
        known = before is not None and before.bid.reach is not None
        return self.bid.reach is not None or not self.bid.takes_part or not known


class Arbitration:
    """The arbitration of one machine. Units that an app without a claim uses are not available to others."""

    def __init__(self, budget: MachineBudget) -> None:
        self.budget = budget
        self._arbiter = Arbiter()
        self._heard: dict[str, _Heard] = {}
        self._units: dict[str, int] = {}
        self._used: dict[str, deque[tuple[float, int]]] = {}
        """Recent use by apps without a claim: times and units."""

    def grants(self, now_s: float, bids: Mapping[str, Bid | None]) -> Mapping[str, Grant]:
        """Return the grants of the apps that take part. ``bids``: one per running app for ``budget.limits()``; ``None``
        if the app cannot be asked now. Apps that are not in ``bids`` have ended."""
        self._hear(now_s, bids)
        claims = {app: self._claim(app, heard.bid) for app, heard in self._heard.items() if heard.bid.reach is not None}
        left = max(self.budget.units - self._held(now_s), len(claims))  # each running app needs at least one unit
        before, shares = self._units, self._arbiter.share(now_s, list(claims.values()), left)
        self._units = dict(shares)
        return {app: self._grant(claim, before.get(app), shares[app]) for app, claim in claims.items()}

    def _hear(self, now_s: float, bids: Mapping[str, Bid | None]) -> None:
        heard = {app: each for app, each in self._heard.items() if app in bids and now_s - each.at_s <= AWAY_S}
        for app, bid in bids.items():
            if bid is not None and (now := _Heard(now_s, bid)).says_more_than(heard.get(app)):
                heard[app] = now
        self._heard = heard

    def _held(self, now_s: float) -> int:
        """Return the number of units in use by apps without a claim."""
        apart = {app: heard.bid.uses for app, heard in self._heard.items() if heard.bid.reach is None}
        self._used = {app: self._used.get(app, deque()) for app in apart}
        since_s = now_s - (BUSY_S if self.budget.workers is None else 0.0)
        for app, used in self._used.items():
            used.append((now_s, self._in_use(apart[app])))
            while used[0][0] < since_s:
                used.popleft()
        return sum(max(units for _, units in used) for used in self._used.values())

    def _in_use(self, uses: Budget) -> int:
        return self.budget.units_of((uses.cores if self.budget.workers is None else uses.workers) or 0)

    def _claim(self, app: str, bid: Bid) -> Claim:
        terms, reach = self.budget.terms(app), tuple(each.met for each in bid.reach or ())
        return Claim(app, (0.0, *reach), terms.priority, max(self._least(bid), self.budget.units_of(terms.floor)))

    def _least(self, bid: Bid) -> int:
        """Return the fewest units with which the app can run."""
        if self.budget.cores is not None:  # with too few cores the app runs, but falls behind
            return 1
        known = (units for units, each in enumerate(bid.reach or (), 1) if each.composition is not None)
        return next(known, 1)

    def _grant(self, claim: Claim, before: int | None, units: int) -> Grant:
        granted, total, reached = self.budget.granted(units), self.budget.granted(self.budget.units), claim.at(units)
        instead = "" if before in (None, units) else f" instead of {self.budget.granted(before or 0).told()}"
        told = f"the arbiter gives {granted.told()}{instead}: {reached:.0%} of the objective"
        further = range(units + 1, self.budget.units + 1)
        better = next((each for each in further if claim.at(each) - reached >= _NOTICEABLE), None)
        if better is None:
            return Grant(granted, total, f"{told}, {self._enough(claim, units)}", reached)
        more, gained = self.budget.granted(better - units), claim.at(better)
        would = self._would_run(claim.app, better)
        runs = f" it would run {would} and gain" if would else " it would gain"
        reason = f"{told}, with {more.told()} more{runs} {gained - reached:.0%}"
        return Grant(granted, total, reason, reached, more, gained, would)

    def _would_run(self, app: str, units: int) -> str | None:
        reach = self._heard[app].bid.reach or ()
        return reach[units - 1].composition if units <= len(reach) else None

    def _enough(self, claim: Claim, units: int) -> str:
        spare = units - min(units, claim.needs())
        return f"{self.budget.granted(spare).told()} to spare" if spare else "and more would not help"
