"""The rule of the Kubernetes Horizontal Pod Autoscaler, which KEDA feeds with other figures.

Source: Kubernetes documentation, "Horizontal Pod Autoscaling", sections "Algorithm details", "Configurable scaling
behavior" and "Default behavior".
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

_EXACT = 1e-9
"""5 · 0.96 / 0.8 is 6, and not a little more."""


@dataclass(frozen=True, slots=True)
class HorizontalSettings:
    """As published."""

    sync_s: float = 15.0
    """Between two looks."""
    stabilization_s: float = 300.0
    """Fewer replicas only where all recommendations of this time agree; more at once."""
    tolerance: float = 0.1
    """A ratio this close to 1 changes nothing."""
    rise_share: float = 1.0
    """A look adds at most this share of the replicas …"""
    rise_replicas: int = 4
    """… or so many, whichever is more."""

    def scaled(self, by: float) -> HorizontalSettings:
        """The same with its times divided."""
        share, replicas = self.rise_share, self.rise_replicas
        return HorizontalSettings(self.sync_s / by, self.stabilization_s / by, self.tolerance, share, replicas)


class Horizontal:
    """The autoscaler of one stage: it remembers what it recommended."""

    def __init__(self, settings: HorizontalSettings) -> None:
        self._settings = settings
        self._told: deque[tuple[float, int]] = deque()

    def replicas(self, at_s: float, present: int, ratio: float) -> int:
        """``ratio``: of what is measured to what it is to be, with the ``present`` replicas."""
        settings = self._settings
        if not self._told:
            self._told.append((at_s, present))
        near = abs(ratio - 1) <= settings.tolerance
        wanted = present if near else max(1, math.ceil(present * ratio - _EXACT))
        self._told.append((at_s, wanted))
        while self._told[0][0] < at_s - settings.stabilization_s:
            self._told.popleft()
        if wanted < present:
            return min(present, max(told for _, told in self._told))
        most = max(math.floor(present * (1 + settings.rise_share)), present + settings.rise_replicas)
        return min(wanted, most)
