"""Port KEDA (Kubernetes Event-driven Autoscaling), which scales by backlog: policy ``keda``.

Source: KEDA documentation, "ScaledObject specification" and "Apache Kafka scaler" (``lagThreshold`` 10, metric type
``AverageValue``): desired = ceil(backlog / threshold). From one replica on, the Kubernetes autoscaler asks the scaler
at each of its evaluations, every 15 s: ``pollingInterval`` (30 s) is for the step between zero and one replica only,
unless ``useCachedMetrics`` is set (kedacore/keda#2282). This port omits that step with its cooldown, since a stage has
one replica at least, and the bound on replicas by partitions of the topic. Our choices: the backlog of a stage is what
waits before it or is in work there, as an item counts for Kafka's lag until it is committed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from lab.gym.policies.horizontal import DEFAULTS, Horizontal, HorizontalSettings
from lab.gym.policies.port import Given, Measured, Policy, Replicas

_ROUNDING_S = 1e-6


@dataclass(frozen=True, slots=True)
class KedaSettings:
    """The defaults of KEDA and of Kubernetes."""

    threshold: int = 10
    """Items of backlog for each replica."""
    horizontal: HorizontalSettings = DEFAULTS


PUBLISHED = KedaSettings()


class Keda(Policy):
    """One scaled object for each stage."""

    def __init__(self, given: Given, settings: KedaSettings = PUBLISHED) -> None:
        self._settings = settings
        self._scalers = [Horizontal(settings.horizontal) for _ in given.stages]
        self._now: Measured | None = None
        self._last_s = -math.inf

    def observe(self, measured: Measured) -> None:
        self._now = measured

    def decide(self) -> Replicas:
        now = self._now
        if now is None or now.at_s - self._last_s < self._settings.horizontal.sync_s - _ROUNDING_S:
            return {}
        self._last_s = now.at_s
        asked = {}
        for scaler, stage in zip(self._scalers, now.stages, strict=True):
            ratio = stage.waiting / (self._settings.threshold * stage.replicas)
            asked[stage.name] = scaler.replicas(now.at_s, stage.replicas, ratio)
        return asked
