"""How far a stream is, by the times in it and their order, so that it is the same wherever and whenever it is read."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Final, NamedTuple

from apps.event_time.numbers import above_zero, not_below_zero, plain, steps_to

END: Final = inf
"""The watermark after the last event."""


class Reading(NamedTuple):
    """Of the clock: the watermark, and the last tick that was told."""

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
