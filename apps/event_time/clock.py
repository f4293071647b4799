"""How far a stream is, by the times in it and their order, so that it is the same wherever and whenever it is read."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, inf, isfinite
from typing import Final, NamedTuple

from compositions.errors import RecomposeError

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
        if not (isfinite(self.behind) and self.behind >= 0):
            raise RecomposeError(f"behind = {self.behind!r}; must be a number, 0 or more")
        if not (isfinite(self.every) and self.every > 0):
            raise RecomposeError(f"every = {self.every!r}; must be a number above 0")

    def seen(self, reading: Reading | None, time: float) -> tuple[float | None, Reading]:
        """An event of ``time``; ``END`` after the last one. Returns the tick to be told before it, if there is one."""
        before = reading or Reading()
        watermark = max(before.watermark, time - self.behind)
        tick = watermark if watermark == END else floor(watermark / self.every) * self.every
        if tick <= before.tick:
            return None, Reading(watermark, before.tick)
        return tick, Reading(watermark, tick)
