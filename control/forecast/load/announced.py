"""Changes of the load that were announced: who announces one is believed."""

from __future__ import annotations

from collections.abc import Iterable

from profiler.snapshot import Announcement

MOST = 1000
"""Announcements that are remembered; of more, those that begin first."""


class Announced:
    """What was announced and is not over."""

    def __init__(self) -> None:
        self._coming: tuple[Announcement, ...] = ()

    def add(self, announcement: Announcement) -> None:
        """A later word on the same span replaces the one before."""
        span = (announcement.from_s, announcement.until_s)
        others = (each for each in self._coming if (each.from_s, each.until_s) != span)
        self._coming = _first((*others, announcement))

    def within(self, now_s: float, horizon_s: float) -> float | None:
        """The highest rate that was announced for some of the time up to ``horizon_s`` from now; what is over is
        forgotten."""
        self._coming = tuple(each for each in self._coming if each.until_s > now_s)
        return max((each.rate_per_s for each in self._coming if each.from_s <= now_s + horizon_s), default=None)


def _first(announcements: Iterable[Announcement]) -> tuple[Announcement, ...]:
    return tuple(sorted(announcements, key=lambda each: each.from_s)[:MOST])
