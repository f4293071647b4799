"""Port the Kubernetes Horizontal Pod Autoscaler with a target utilization: policy ``hpa``.

Source: as :mod:`lab.gym.policies.horizontal`. The target of 80 % is the default of the API
(``HorizontalPodAutoscalerSpec`` v2, ``metrics``). Our choices: a replica is utilized while it works on items, whether
it computes or waits for something else, and no more than 100 %; the metrics are those of the last interval, where a
metrics server would add up to a minute of delay. This port omits the initialization period of CPU metrics (5 min), in
which Kubernetes may ignore a new replica.
"""

from __future__ import annotations

from dataclasses import dataclass

from lab.gym.policies.horizontal import DEFAULTS, Horizontal, HorizontalSettings
from lab.gym.policies.port import Given, Measured, Policy, Replicas
from lab.gym.policies.window import Window


@dataclass(frozen=True, slots=True)
class HpaSettings:
    """The defaults of Kubernetes."""

    target: float = 0.8
    """The utilization to hold."""
    horizontal: HorizontalSettings = DEFAULTS


PUBLISHED = HpaSettings()


class Hpa(Policy):
    """One autoscaler for each stage."""

    def __init__(self, given: Given, settings: HpaSettings = PUBLISHED) -> None:
        self._settings = settings
        self._scalers = [Horizontal(settings.horizontal) for _ in given.stages]
        self._window = Window(settings.horizontal.sync_s)
        self._now: Measured | None = None

    def observe(self, measured: Measured) -> None:
        self._now = measured
        self._window.add(measured)

    def decide(self) -> Replicas:
        if self._now is None or not self._window.full:
            return {}
        asked = {}
        for index, (scaler, stage) in enumerate(zip(self._scalers, self._now.stages, strict=True)):
            utilization = self._window.utilization(index)
            if utilization is not None:
                ratio = min(1.0, utilization) / self._settings.target
                asked[stage.name] = scaler.replicas(self._now.at_s, stage.replicas, ratio, stage.ready)
        self._window.clear()
        return asked
