"""Changes of the load that were announced: who announces one is believed."""

from __future__ import annotations

from collections.abc import Iterable

from profiler.snapshot import Announcement


class Announced:
    """What was announced and is not over."""

    def __init__(self) -> None:
        self._coming: tuple[Announcement, ...] = ()

    def set(self, announcements: Iterable[Announcement]) -> None:
        """All that there are, in place of those before."""
        self._coming = tuple(announcements)

    def within(self, now_s: float, horizon_s: float) -> float | None:
        """The highest rate that was announced for some of the time up to ``horizon_s`` from now; what is over is
        forgotten."""
        self._coming = tuple(each for each in self._coming if each.until_s > now_s)
        return max((each.rate_per_s for each in self._coming if each.from_s <= now_s + horizon_s), default=None)
