"""Implement the rule of the Kubernetes Horizontal Pod Autoscaler, which KEDA feeds with other figures.

Source: Kubernetes documentation, "Horizontal Pod Autoscaling", sections "Algorithm details", "Configurable scaling
behavior" and "Default behavior". This port omits several metrics of one autoscaler, missing metrics, bounds on replicas
other than one at least.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

_EXACT = 1e-9
"""5 · 0.96 / 0.8 is 6, and not a little more."""


@dataclass(frozen=True, slots=True)
class HorizontalSettings:
    """The defaults of Kubernetes."""

    sync_s: float = 15.0
    """Time between two evaluations."""
    stabilization_s: float = 300.0
    """The number of replicas falls only to the highest recommendation of this time; it rises at once."""
    tolerance: float = 0.1
    """A ratio this close to 1 changes nothing."""
    rise_share: float = 1.0
    """An evaluation adds at most this share of the replicas …"""
    rise_replicas: int = 4
    """… or this many, whichever is more. (The period of both policies is 15 s, one evaluation.)"""


DEFAULTS = HorizontalSettings()


class Horizontal:
    """The autoscaler of one stage, with its past recommendations."""

    def __init__(self, settings: HorizontalSettings) -> None:
        self._settings = settings
        self._recommended: deque[tuple[float, int]] = deque()

    def replicas(self, at_s: float, present: int, ratio: float, ready: int | None = None) -> int:
        """Return the number of replicas.

        ``ratio`` is the metric divided by its target, measured over the ``ready`` replicas (default: all that are
        ``present``). Replicas that are not ready count as idle where the ratio asks for more replicas.
        """
        settings = self._settings
        if not self._recommended:
            self._recommended.append((at_s, present))
        desired = self._desired(present, ratio, present if ready is None else ready)
        self._recommended.append((at_s, desired))
        while self._recommended[0][0] < at_s - settings.stabilization_s:
            self._recommended.popleft()
        if desired < present:
            return min(present, max(replicas for _, replicas in self._recommended))
        most = max(math.floor(present * (1 + settings.rise_share)), present + settings.rise_replicas)
        return min(desired, most)

    def _desired(self, present: int, ratio: float, ready: int) -> int:
        tolerance = self._settings.tolerance
        if not ready or abs(ratio - 1) <= tolerance:
            return present
        desired = max(1, math.ceil(ready * ratio - _EXACT))
        with_idle = ratio * ready / max(present, ready)
        if ratio > 1 and (with_idle <= 1 + tolerance or desired < present):
            return present
        return desired
