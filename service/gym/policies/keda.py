"""Policy ``keda``: replicas by backlog, after KEDA (Kubernetes Event-driven Autoscaling).

Source: KEDA documentation, "ScaledObject specification" (polling interval 30 s, cooldown 300 s) and "Apache Kafka
scaler" (``lagThreshold`` 10): desired = ceil(backlog / threshold), carried out from one replica on by the Kubernetes
autoscaler with its tolerance and stabilization. Between zero and one replica KEDA decides itself, after its cooldown;
here a stage has at least one. Its backlog is what waits before it or is in work.
"""

from __future__ import annotations

import math

from service.gym.policies.horizontal import Horizontal, HorizontalSettings
from service.gym.policies.port import Given, Measured, Policy, Replicas


class Keda(Policy):
    """One scaled object a stage."""

    BACKLOG_A_REPLICA = 10
    SETTINGS = HorizontalSettings(sync_s=30.0)

    def __init__(self, given: Given) -> None:
        self._scalers = [Horizontal(self.SETTINGS) for _ in given.stages]
        self._now: Measured | None = None
        self._last_s = -math.inf

    def observe(self, measured: Measured) -> None:
        self._now = measured

    def decide(self) -> Replicas:
        now = self._now
        if now is None or now.at_s - self._last_s < self.SETTINGS.sync_s - 1e-6:
            return {}
        self._last_s = now.at_s
        asked = zip(self._scalers, now.stages, strict=True)
        ratios = {each.name: each.waiting / (self.BACKLOG_A_REPLICA * each.replicas) for each in now.stages}
        return {s.name: scaler.replicas(now.at_s, s.replicas, ratios[s.name]) for scaler, s in asked}


class KedaScaled(Keda):
    """With its times divided by 15: a poll every 2 s, down after 20 s; and a backlog of 2 a replica, as a latency
    wants it."""

    BACKLOG_A_REPLICA = 2
    SETTINGS = HorizontalSettings(sync_s=30.0).scaled(15)
