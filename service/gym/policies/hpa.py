"""Policy ``hpa``: the Kubernetes Horizontal Pod Autoscaler by utilization.

Source: as :mod:`service.gym.policies.horizontal`; target utilization of 80 % is the default of the API
(HorizontalPodAutoscalerSpec v2, ``metrics``). A replica is utilized while it works.
"""

from __future__ import annotations

from service.gym.policies.horizontal import Horizontal, HorizontalSettings
from service.gym.policies.port import Given, Measured, Policy, Replicas
from service.gym.policies.window import Window


class Hpa(Policy):
    """One autoscaler a stage."""

    TARGET = 0.8
    SETTINGS = HorizontalSettings()

    def __init__(self, given: Given) -> None:
        self._scalers = [Horizontal(self.SETTINGS) for _ in given.stages]
        self._window = Window(self.SETTINGS.sync_s)
        self._now: Measured | None = None

    def observe(self, measured: Measured) -> None:
        self._now = measured
        self._window.add(measured)

    def decide(self) -> Replicas:
        if self._now is None or not self._window.full:
            return {}
        ratios = [self._window.utilization(each) / self.TARGET for each in range(len(self._scalers))]
        self._window.clear()
        stages, at_s = self._now.stages, self._now.at_s
        asked = zip(self._scalers, stages, ratios, strict=True)
        return {stage.name: scaler.replicas(at_s, stage.replicas, ratio) for scaler, stage, ratio in asked}


class HpaScaled(Hpa):
    """With its times divided by 15: a look every second, down after 20 s."""

    SETTINGS = HorizontalSettings().scaled(15)
