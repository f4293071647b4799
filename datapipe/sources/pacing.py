"""The frequency manager: let the source take its next item when the input rate allows.

Garcia et al. 2023 (SPBench), section 3.2, algorithm 1, wait ``1/frequency`` minus the time since the last item. There,
the overshoot of each sleep is lost: 0.1 ms per item is 10 % of a rate of 1,000 items/s. Here the rate is a schedule of
slots (:mod:`datapipe.sources.schedule`), and each item takes one slot. The wait is the same, but the mean rate does not
drift, changes of a pattern between two items are followed exactly, and every item has a due time.
"""

import math
import threading
from collections.abc import Callable

from apps.rates import Rate
from datapipe.sources.schedule import Offer, Schedule

SLICE_S = 0.05
"""Longest single wait, so that a changed pattern or a rate that leaves zero is noticed."""

LASTING_S = 5.0
"""After having had items for this long, a source that others fill counts as read at its rate limit."""
_ROUNDING = 1e-6
"""Fraction of a slot by which a sum of floats may fall short of a whole slot."""


class FrequencyManager:
    """Paces one source. ``set_pattern`` and the read-only values may be used from any thread.

    ``clock`` returns seconds; ``wait`` sleeps that many seconds and returns True if the source is to stop, like
    ``threading.Event.wait``. A source that was blocked makes up for ``catch_up_items`` or ``catch_up_s`` of the stream,
    whichever is more; slots beyond that count as missed. ``dry``: returns whether a source that others fill is empty.
    For such a source the pattern is a limit: items that have not arrived are neither due nor missed.
    """

    def __init__(
        self,
        pattern: Rate | None,
        *,
        clock: Callable[[], float],
        wait: Callable[[float], bool],
        catch_up_items: float = 1.0,
        catch_up_s: float = 0.05,
        dry: Callable[[], bool] = lambda: False,
    ) -> None:
        self._clock = clock
        self._wait = wait
        self._dry, self._waits, self._dry_s = dry, False, -math.inf
        self._catch_up = {"catch_up_items": catch_up_items, "catch_up_s": catch_up_s}
        self._lock = threading.Lock()
        self._taken = 0
        self._missed_before = 0
        self._pattern = pattern
        self._schedule = self._from_now()

    @property
    def missed(self) -> int:
        """Number of slots that passed while the source was blocked and were not made up for."""
        with self._lock:
            return self._missed()

    def offer(self) -> Offer:
        """Return the items due up to now; for an unpaced source, those read."""
        with self._lock:
            if self._schedule is None or self._passed_over(self._schedule):
                return Offer(self._taken + self._missed(), self._missed(), 0, 0.0)
            lag_s = self._schedule.lag_s(self._clock())
            behind = int(self._schedule.due + _ROUNDING)
            return Offer(self._taken + self._missed() + behind, self._missed(), behind, lag_s)

    def waits(self, *, waits: bool) -> None:
        """Record that the reader starts to wait for items that may not be there, or that it has stopped waiting."""
        if self._schedule is None:
            return
        with self._lock:
            if self._schedule is not None:
                self._waits = self._waits or (waits and self._dry())
                self._passed_over(self._schedule)
                self._waits = self._waits and waits

    def _passed_over(self, schedule: Schedule) -> bool:
        """Return whether the source is empty, or was until now, and skip the slots up to now if so."""
        if dry := self._waits or self._dry():
            self._dry_s = self._clock()
            schedule.pass_over(self._dry_s)
        return dry

    def begin(self) -> None:
        """Start the schedule now, as reading begins."""
        with self._lock:
            self._schedule = self._from_now()
            if self._schedule is not None:
                self._passed_over(self._schedule)

    def set_pattern(self, pattern: Rate | None) -> None:
        """Replace the pattern; its elapsed time begins now. None means unpaced."""
        with self._lock:
            now_s, self._pattern = self._clock(), pattern
            if pattern is not None and self._schedule is not None:
                self._schedule.replace(pattern, now_s)
                return
            if self._schedule is not None:
                self._schedule.advance(now_s)
                self._missed_before += self._schedule.missed
            self._schedule = self._from_now()

    def offered_per_s(self, now_s: float) -> float | None:
        """Return the rate that the pattern asks for at ``now_s``. ``None`` if unpaced, or if the pattern is a limit and
        the source may be slower: it has not had items for long."""
        with self._lock:
            if self._schedule is None or now_s - self._dry_s < LASTING_S:
                return None
            return self._schedule.rate_per_s(now_s)

    def turns(self, most: int) -> list[float] | None:
        """Wait until an item is due, and return the due times of up to ``most`` items that are due. For an unpaced
        source, all are due now. None: the source must stop."""
        if self._schedule is None and self._wait(0.0):
            return None
        while True:
            with self._lock:
                if self._schedule is not None:
                    self._passed_over(self._schedule)
                now_s, due_s = self._take(most)
                if due_s:
                    return due_s
                assert self._schedule is not None, "an unpaced item is due at once"
                wait_s = self._schedule.next_due_s(now_s) - now_s
            if self._wait(min(wait_s, SLICE_S)):
                return None

    def due_now(self, most: int) -> list[float]:
        """Take the turns of up to ``most`` items that are due now, and return their due times."""
        with self._lock:
            return self._take(most)[1]

    def _take(self, most: int) -> tuple[float, list[float]]:
        """Take due turns; return the present time and the due times."""
        now_s = self._clock()
        due_s = [now_s] * most if self._schedule is None else self._schedule.take_all(now_s, most)
        self._taken += len(due_s)
        return now_s, due_s

    def give_back(self, turns: int) -> None:
        """Return turns for which there was no item."""
        with self._lock:
            self._taken -= turns
            if self._schedule is not None:
                self._schedule.give_back(turns)

    def wait_until(self, until_s: float) -> bool:
        """Wait for the next turn until ``until_s``. False: no turn comes before that, or the source must stop."""
        with self._lock:
            now_s = self._clock()
            next_s = now_s if self._schedule is None else self._schedule.next_due_s(now_s)
        return next_s < until_s and not self._wait(max(0.0, next_s - now_s))

    def _from_now(self) -> Schedule | None:
        return None if self._pattern is None else Schedule(self._pattern, self._clock(), **self._catch_up)

    def _missed(self) -> int:
        return self._missed_before + (self._schedule.missed if self._schedule else 0)
