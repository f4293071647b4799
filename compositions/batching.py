"""How many items travel together: what a user asks for, and what holds at a moment."""

from __future__ import annotations

from dataclasses import dataclass

from compositions.settings import SettingsError, check, ranged

MOST_ITEMS = 100_000
MOST_BYTES = 2**40
MOST_LINGER_MS = 60_000


@dataclass(frozen=True, slots=True)
class Batching:
    """A bundle is closed by count, bytes or age, whichever comes first.

    Raises: SettingsError that names every value out of range.
    """

    items: int | None = None
    """None: as many as pay (:mod:`control.grain`)."""
    max_bytes: int = ranged(4 * 2**20, 1, MOST_BYTES, "bytes")
    linger_ms: float = ranged(0.0, 0, MOST_LINGER_MS, "ms")
    """How long the first item may wait for others that are not due yet. Those that are due never wait."""

    def __post_init__(self) -> None:
        check(self)
        if self.items is not None and not (type(self.items) is int and 1 <= self.items <= MOST_ITEMS):
            raise SettingsError(f"items is {self.items!r}; must be auto, or a whole number from 1 to {MOST_ITEMS:,}")

    def limits(self, size: int) -> BundleLimits:
        """What holds while ``size`` items are to travel together."""
        return BundleLimits(size, self.max_bytes, self.linger_ms / 1e3)


@dataclass(frozen=True, slots=True)
class BundleLimits:
    """When the next bundle is closed."""

    items: int = 1
    max_bytes: int = 4 * 2**20
    linger_s: float = 0.0
