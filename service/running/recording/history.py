"""What a running app did of late: one sample a second, for charts and for clients that were away."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from service.bodies.status import Sample

PERIOD_S = 1.0
KEPT_S = 3600
"""An hour of samples takes some 4 MB."""


class History:
    """A bounded ring; times are seconds of the caller's clock."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, Sample]] = deque(maxlen=int(KEPT_S / PERIOD_S))
        self._due_s = float("-inf")

    def note(self, now_s: float, sample: Callable[[], Sample]) -> None:
        """Takes a sample if one is due."""
        if now_s < self._due_s:
            return
        on_time = now_s - self._due_s < PERIOD_S
        self._due_s = (self._due_s if on_time else now_s) + PERIOD_S
        self._samples.append((now_s, sample()))

    def since(self, at_s: float) -> list[Sample]:
        """Samples taken at ``at_s`` or later, oldest first."""
        return [sample for taken_s, sample in self._samples if taken_s >= at_s]
