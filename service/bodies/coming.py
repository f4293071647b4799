"""Loads that are to come, as somebody said: which are remembered, and on whose clock."""

from __future__ import annotations

from profiler.snapshot import Announcement
from service.bodies.spec import Coming

MOST = 1000
"""Announcements that are remembered of an app; of more, those that begin first."""


def with_another(known: tuple[Coming, ...], another: Coming, now_epoch_s: float) -> tuple[Coming, ...]:
    """What is over is forgotten; a later word on the same span replaces the one before."""
    span = (another.from_epoch_s, another.until_epoch_s)
    others = (each for each in known if (each.from_epoch_s, each.until_epoch_s) != span)
    lasting = (each for each in (*others, another) if each.until_epoch_s > now_epoch_s)
    return tuple(sorted(lasting, key=lambda each: each.from_epoch_s)[:MOST])


def seen_from(began_epoch_s: float, coming: Coming) -> Announcement:
    """On a clock that was 0 then."""
    return Announcement(coming.from_epoch_s - began_epoch_s, coming.until_epoch_s - began_epoch_s, coming.rate_per_s)
