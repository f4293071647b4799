"""The clock of a stream: a watermark and ticks from the times in it and their order, the same wherever it is read."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Final, NamedTuple

from apps.event_time.numbers import above_zero, not_below_zero, plain, steps_to
from compositions.errors import RecomposeError, shown

END: Final = inf
"""The watermark after the last event."""


class Reading(NamedTuple):
    """The state of the clock: the watermark, and the last tick."""

    watermark: float = -inf
    tick: float = -inf


@dataclass(frozen=True, slots=True)
class Clock:
    """A watermark that stays ``behind`` the newest time seen, with a tick whenever it passes a multiple of ``every``.

    For a stage that sees all events in order. Raises: RecomposeError when ``behind`` is below 0 or ``every`` not above.
    """

    behind: float = 0
    every: float = 60

    def __post_init__(self) -> None:
        not_below_zero("behind", self.behind)
        above_zero("every", self.every)

    def seen(self, reading: Reading | None, time: float) -> tuple[float | None, Reading]:
        """An event of ``time``; ``END`` after the last one. Returns the tick to be told before it, if there is one.

        Raises: RecomposeError for what is no time.
        """
        before, time = reading or Reading(), plain(time)
        if time == END or before.watermark == END:
            watermark = tick = END
        else:
            steps_to(time, self.every)  # also of what is earlier than the newest
            watermark = max(before.watermark, time - self.behind)
            tick = steps_to(watermark, self.every) * self.every
        if tick <= before.tick:
            return None, Reading(watermark, before.tick)
        return tick, Reading(watermark, tick)


Timers = tuple[tuple[float, str], ...]
"""Times and names, earliest first."""


def with_timer(timers: Timers, at: float, name: str) -> Timers:
    """Sets a timer; one of that name is moved. Raises: RecomposeError for what is no time; ``END`` is one."""
    try:
        fits = at <= inf  # not a number is not
    except (TypeError, ArithmeticError):  # the latter of a Decimal
        fits = False
    if not fits:
        raise RecomposeError(f"the time {shown(at)} of timer {shown(name)}; must be a number, or END")
    return tuple(sorted((*without_timer(timers, name), (at, name))))


def without_timer(timers: Timers, name: str) -> Timers:
    """Takes a timer back, if it is set."""
    return tuple(timer for timer in timers if timer[1] != name)


def due(timers: Timers, watermark: float) -> tuple[Timers, Timers]:
    """Those whose time has come, earliest first, and the others."""
    count = sum(at <= watermark for at, _ in timers)
    return timers[:count], timers[count:]
