"""Anticipate the load, and check that the active composition can take it: a rise counts at once, a fall only when it
has lasted (docs/decisions/0029-changing-load.md)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from math import inf

from compositions.wording import figure
from control.decisions import Trigger
from control.forecast.load.arrivals import LONGEST_S, QUICK_S, WRONG_S, Announced, Delays, Falls, Unhindered
from control.forecast.load.looking_ahead import LookingAhead
from control.reading import waiting
from control.watch import Due
from profiler.monitor import AT_HAND
from profiler.slo import differ
from profiler.snapshot import Announcement, RateOutlook, Snapshot

CATCH_UP_S = 0.5
"""In what time a backlog is to be gone, or in the time in which items are wanted, if that is longer."""
_WAITING = 0.2
"""Of the time in which items are wanted, what they may wait without being a backlog."""
_CAUGHT_UP_S = 2.0
"""After a backlog what is measured is still of the late items."""
_PRESSING_S = 15.0
"""A backlog that is not gone after so long is not a matter of catching up."""
_SHIFT = 0.03
"""Share by which a need must rise to be news where the load rests."""
_CERTAIN = 2.0
"""Standard errors by which a rate that rests is provided for."""
_SURELY_MORE = 1.5
"""Standard errors by which a rate that rests must be more than the active composition is good for."""


class LoadAnticipation:
    """Remembers what was expected of late, and what came of giving back."""

    def __init__(self, start_s: float, hold_s: float) -> None:
        """``start_s``: what it takes to start a worker; ``hold_s``: how long a fall must last, to begin with."""
        self.delays = Delays(start_s)
        """What changes take: for who makes them to tell."""
        self._ahead, self._unhindered = LookingAhead(), Unhindered()
        self._falls = Falls(min(hold_s, WRONG_S))
        self._announced = Announced()
        self._recent: deque[tuple[float, float]] = deque()
        self._looked_s = self._pressed_s = -inf
        self._catch_up_until_s: float | None = None
        """What gathered while the first workers started is caught up with until then; ``None`` before the start."""
        self._known: dict[str, float] = {}
        """Up to which need an answer for the active composition is known, items/s."""
        self._rate_then = 0.0
        """At least, when more was last asked for."""

    def announce(self, announcements: Iterable[Announcement]) -> None:
        """All that there are. They are believed: there will be workers for each, a worker's start before it begins."""
        self._announced.set(announcements)

    @property
    def announced(self) -> tuple[Announcement, ...]:
        """Return the loads that are to come, as far as they are known to be."""
        return self._announced.coming

    def warm(self, rates_per_s: Iterable[float]) -> None:
        """The load before the start, a rate a bin (``BIN_S``) until now, oldest first; NaN at the end where it is not
        known."""
        self._ahead.warm(rates_per_s)

    def seen(self, snapshot: Snapshot, wanted_s: float | None) -> Snapshot:
        """``snapshot`` with what is expected of the rate; as it is where nobody counts. ``wanted_s``: the time in which
        an item is wanted, ``None`` where that is not asked for."""
        if snapshot.input.set_per_s is None and not snapshot.input.arrived:
            return snapshot
        self._observe(snapshot)
        outlook = self._outlook(snapshot.now_s)
        self._falls.note(snapshot.now_s, outlook.expected_per_s)
        self._remember(snapshot.now_s, outlook.expected_per_s)
        if outlook.moving or self._catches_up(snapshot, wanted_s):
            more = _to_catch_up(snapshot, outlook.expected_per_s, wanted_s)
            outlook = replace(outlook, upper_per_s=outlook.upper_per_s + more, moving=True, catch_up_per_s=more)
        return _with(snapshot, outlook)

    def due(self, snapshot: Snapshot, enough: bool | None) -> Due | None:
        """``enough``: whether the active composition will do for the outlook of ``snapshot``; None: nobody can tell."""
        outlook = snapshot.outlook
        if outlook is None or enough is None:
            return None
        expects = f"{outlook.by} means up to {figure(outlook.upper_per_s - outlook.catch_up_per_s)} items/s"
        if outlook.catch_up_per_s > 0:
            expects += f", and {snapshot.backlog:,} items wait to be caught up with"
        need = outlook.upper_per_s if outlook.moving else self._surely(outlook)
        if not enough:
            if need <= self._known.get(snapshot.composition, 0.0) and not outlook.moving:
                return None  # it was enough for that, and no load has changed it: what is measured counts
            self._known = {snapshot.composition: (1 + _SHIFT) * need}
            self._rate_then = max(0.0, outlook.present_per_s - _CERTAIN * self._ahead.level_error_per_s)
            return Due(Trigger.INPUT_RATE, expects, rising=True)
        self._known = {snapshot.composition: (1 + _SHIFT) * need}
        if not outlook.moving or snapshot.now_s - self._looked_s < QUICK_S:
            return None
        self._looked_s = snapshot.now_s
        fell = outlook.present_per_s < self._rate_then and differ(outlook.present_per_s, self._rate_then)
        return Due(Trigger.INPUT_RATE if fell else Trigger.PROFILE, expects)

    def asked(self, snapshot: Snapshot) -> Snapshot:
        """Return what the active composition must be up to: of a load that rests what is surely expected. The doubt
        of the estimate is for those that are chosen anew; one that is there is not left for what may be chance."""
        outlook = snapshot.outlook
        if outlook is None or outlook.moving:
            return snapshot
        return _with(snapshot, replace(outlook, upper_per_s=self._surely(outlook)))

    def held(self, snapshot: Snapshot) -> Snapshot:
        """``snapshot`` with the most that was expected of late: what was needed so short a time ago is not given
        back. What is added for doubt is that of now: the most of several uppers would be doubt counted twice."""
        outlook = snapshot.outlook
        if outlook is None:
            return snapshot
        since_s = snapshot.now_s - self._falls.holds_s(snapshot.now_s)
        most = max((need for at_s, need in self._recent if at_s >= since_s), default=0.0)
        doubt = outlook.upper_per_s - outlook.expected_per_s
        return _with(snapshot, replace(outlook, upper_per_s=max(most + doubt, outlook.upper_per_s)))

    def _observe(self, snapshot: Snapshot) -> None:
        """A rate that is set is known, whatever is read; counted is what came while there was room."""
        seen = snapshot.input
        believed = self._ahead.level_per_s if seen.set_per_s is None else -inf
        told = self._unhindered.count(snapshot.now_s, seen, believed, waiting=waiting(snapshot))
        if told is not None:
            at_s, arrived = told
            self._ahead.observe(at_s, seen.set_per_s, arrived)

    def _outlook(self, now_s: float) -> RateOutlook:
        """Of the rate alone."""
        ahead = self._ahead
        quick_s = self.delays.quick_s
        cold_s = quick_s + self.delays.start_s
        expected, upper, by = ahead.within(quick_s)
        far, _, _ = ahead.within(cold_s)
        if far > self._recent[0][1] if self._recent else 0.0:  # workers for so much may have to be started
            expected, upper = max(expected, far), max(upper, far)
        if not ahead.moving:
            upper = max(expected, min(upper, expected + _CERTAIN * ahead.level_error_per_s))
        announced = self._announced.within(now_s, cold_s)
        if announced is not None and announced > expected:
            expected, upper, by = announced, max(announced, upper), "what was announced"
        return RateOutlook(ahead.level_per_s, expected, upper, ahead.moving, by, ahead.level_error_per_s)

    def _surely(self, outlook: RateOutlook) -> float:
        """Of a load that rests, which foretells no less than there is."""
        return max(0.0, outlook.expected_per_s - _SURELY_MORE * self._ahead.level_error_per_s)

    def _catches_up(self, snapshot: Snapshot, wanted_s: float | None) -> bool:
        """At the start so much waits that all of it will be late, or that was so a moment ago: nothing that is measured
        tells of the composition, and more workers for a while are what helps. Later what waits is chance, or the
        composition's doing."""
        now_s = snapshot.now_s
        if self._catch_up_until_s is None:
            self._catch_up_until_s = now_s + _PRESSING_S
        late = wanted_s is not None and snapshot.backlog > AT_HAND + wanted_s * self._ahead.level_per_s
        if late and now_s < self._catch_up_until_s:
            self._pressed_s = now_s
        elif now_s >= self._pressed_s > -inf:
            self._catch_up_until_s = now_s
        return now_s - self._pressed_s <= _CAUGHT_UP_S

    def _remember(self, now_s: float, need: float) -> None:
        """Falling values only: an earlier one that is no higher tells nothing any more."""
        while self._recent and self._recent[-1][1] <= need:
            self._recent.pop()
        self._recent.append((now_s, need))
        while self._recent[0][0] < now_s - LONGEST_S:
            self._recent.popleft()


def _to_catch_up(snapshot: Snapshot, rate_per_s: float, wanted_s: float | None) -> float:
    """Return what a backlog asks for beside the rate, items/s."""
    if wanted_s is None:
        return 0.0
    return max(0.0, snapshot.backlog - AT_HAND - _WAITING * wanted_s * rate_per_s) / max(CATCH_UP_S, wanted_s)


def _with(snapshot: Snapshot, outlook: RateOutlook) -> Snapshot:
    return replace(snapshot, input=replace(snapshot.input, outlook=outlook))
