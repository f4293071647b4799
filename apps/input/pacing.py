"""The frequency manager: lets the source take its next item when the input rate says so.

Garcia et al. 2023 (SPBench), section 3.2, algorithm 1, wait ``1/frequency`` less what the source spent since its last
item. What a sleep overshoots is lost there, item by item: 0.1 ms each is 10 % of a rate of 1,000 items/s. Here the
time that passed is turned into credit, ``∫ rate dt`` items, of which each item takes one: the wait is the same, the
mean rate does not drift, and a pattern that changes, or rests at zero, between two items is followed exactly.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable

from apps.input.rates import Rate

SLICE_S = 0.05
"""Longest single wait, so that a changed pattern or a rate that leaves zero is noticed."""
_EPSILON = 1e-9
"""Items by which rounding may leave the credit short of one."""


def next_due_s(rate_per_s: float, now_s: float, credit: float) -> float:
    """When the credit reaches one item if the rate stays as it is; infinite at rate zero."""
    if rate_per_s <= 0:
        return math.inf
    return now_s + max(0.0, 1.0 - credit) / rate_per_s


def earned(rate: Rate, from_s: float, to_s: float, step_s: float = SLICE_S / 2, most_steps: int = 1000) -> float:
    """Items that a pattern brings between two elapsed times: its integral, by the midpoint rule."""
    length_s = to_s - from_s
    steps = min(most_steps, max(1, math.ceil(length_s / step_s)))
    width_s = length_s / steps
    return width_s * sum(rate(from_s + (k + 0.5) * width_s) for k in range(steps))


def most_credit(rate_per_s: float, catch_up_items: float, catch_up_s: float) -> float:
    """Most items that may be due at once: the one whose turn it is, and what a late source may make up for."""
    return 1.0 + max(catch_up_items, rate_per_s * catch_up_s)


class FrequencyManager:
    """Paces one source. ``set_pattern`` and the read-only values may be used from any thread.

    ``clock`` gives seconds; ``wait`` sleeps so many seconds and returns True when the source is to stop, as
    ``threading.Event.wait`` does. A source that was blocked makes up for ``catch_up_items`` or ``catch_up_s`` of the
    stream, whichever is more; slots beyond that are counted as missed.
    """

    def __init__(
        self,
        pattern: Rate | None,
        *,
        clock: Callable[[], float],
        wait: Callable[[float], bool],
        catch_up_items: float = 1.0,
        catch_up_s: float = 0.05,
    ) -> None:
        self._clock = clock
        self._wait = wait
        self._catch_up = (catch_up_items, catch_up_s)
        self._lock = threading.Lock()
        self._missed = 0.0
        self._credit = 1.0  # the first item need not wait
        self._pattern = pattern
        self._started_s = self._seen_s = clock()

    @property
    def missed(self) -> int:
        """Slots that passed while the source was blocked, and were not made up for."""
        return int(self._missed)

    def set_pattern(self, pattern: Rate | None) -> None:
        """Replaces the pattern; its elapsed time begins now. ``None`` means unpaced."""
        with self._lock:
            now_s = self._clock()
            self._accrue(now_s)
            self._pattern, self._started_s, self._seen_s = pattern, now_s, now_s

    def offered_per_s(self, now_s: float) -> float | None:
        """The rate that the pattern asks for at ``now_s``; ``None`` when unpaced."""
        with self._lock:
            return None if self._pattern is None else self._pattern(max(0.0, now_s - self._started_s))

    def turn(self) -> bool:
        """Waits until the next item is due. False: the source is to stop, nothing is due."""
        while True:
            delay_s = self._delay_s()
            if delay_s is None:
                return not self._wait(0.0)
            if self._wait(min(delay_s, SLICE_S)):
                return False

    def _delay_s(self) -> float | None:
        """How long the next item has to wait yet; ``None`` after taking its credit, when it is due."""
        with self._lock:
            if self._pattern is None:
                return None
            now_s = self._clock()
            self._accrue(now_s)
            rate_per_s = self._pattern(now_s - self._started_s)
            if rate_per_s > 0 and self._credit >= 1.0 - _EPSILON:
                self._credit -= 1.0
                return None
            return next_due_s(rate_per_s, now_s, self._credit) - now_s

    def _accrue(self, now_s: float) -> None:
        if self._pattern is None:
            return
        seen_s, elapsed_s = self._seen_s - self._started_s, now_s - self._started_s
        credit = self._credit + earned(self._pattern, seen_s, elapsed_s)
        most = most_credit(self._pattern(elapsed_s), *self._catch_up)
        self._credit, self._seen_s = min(credit, most), now_s
        self._missed += max(0.0, credit - most)
