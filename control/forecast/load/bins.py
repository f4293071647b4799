"""The input rate of the past, in bins of equal length."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

BIN_S = 0.5
"""Two turns of the manager."""
KEPT = 1200
"""Ten minutes: a season shows from its second time on, so one of five minutes can be found."""


class Bins:
    """A rate a bin, newest last, at most ``KEPT``."""

    def __init__(self) -> None:
        self._rates = np.zeros(2 * KEPT)
        self._count = 0
        self.total = 0
        """Bins since the start."""

    def __len__(self) -> int:
        return self._count

    @property
    def rates(self) -> Array:
        """Items/s, oldest first; a view."""
        return self._rates[: self._count]

    def add(self, rate_per_s: float) -> None:
        if self._count == len(self._rates):
            self._rates[:KEPT] = self._rates[-KEPT:]
            self._count = KEPT
        self._rates[self._count] = rate_per_s
        self._count += 1
        self.total += 1
