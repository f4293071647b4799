"""How many items a bundle needs at least, so that a paced source is kept up with, whatever the latency."""

from __future__ import annotations

from control.batching.law import Shape


class KeepingUp:
    """Small bundles pay the overhead too often: where items pile up, latency grows without end, and a smaller bundle
    would make it worse. So a floor rises while whole bundles are waiting, and sinks slowly when they are not."""

    BEHIND = 2.0
    """Bundles that wait, from which on it is a pile."""
    RISE, SINK = 1.1, 0.998
    WORTH = 9.0
    """Beyond so many times the overhead, all of it saved would be less than a tenth."""

    def __init__(self) -> None:
        self._floor = 1.0

    def least(self, shape: Shape, load_s: float, items: int, waiting: int) -> float:
        """The floor, where the last bundle had ``items`` and so many are ``waiting``."""
        if waiting > self.BEHIND * items:
            self._floor = min(
                max(self._floor, items) * self.RISE, max(1.0, self.WORTH * shape.work_s(load_s, 0) / load_s)
            )
        else:
            self._floor = max(1.0, self._floor * self.SINK)
        return self._floor
