"""Seconds of the loop's clock, and the instants that the outside is told."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic, time

from service.bodies.base import time_text


@dataclass(frozen=True, slots=True)
class WallClock:
    """``epoch_s``: the wall clock at 0 of the loop's clock, seconds since 1970."""

    epoch_s: float

    @classmethod
    def now(cls) -> WallClock:
        """For a loop that counts in ``time.monotonic``."""
        return cls(time() - monotonic())

    def text(self, at_s: float) -> str:
        """RFC 3339, UTC, to the millisecond."""
        return time_text(self.epoch_s + at_s)

    def micros(self, at_s: float) -> int:
        """Microseconds since 1970."""
        return round((self.epoch_s + at_s) * 1e6)
