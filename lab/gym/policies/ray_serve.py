"""Port the autoscaling of Ray Serve by ongoing requests: policy ``ray-serve``.

Source: Ray 2.60, ``ray.serve.config.AutoscalingConfig`` (defaults) and the default policy of
``ray.serve.autoscaling_policy``: desired = ceil(ongoing / target), where ongoing requests are queued or in work,
averaged over the look-back period. More replicas come once the desired number has been above the present one for the
whole upscale delay, fewer once it has been below for the whole downscale delay; the last desired number counts.
Requests are reported every 10 s. This port omits scaling to zero, bounds on ongoing requests of a replica, and on
replicas: where workers are short, the deployment that asks first may get all and keeps them for the downscale delay.
Our choices: the control loop runs with our turns of 0.25 s, where Ray's takes 0.1 s; a stage is a deployment.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from lab.gym.policies.port import Given, Measured, Policy, Replicas
from lab.gym.policies.window import Window

_ROUNDING_S = 1e-6


@dataclass(frozen=True, slots=True)
class RayServeSettings:
    """The defaults of Ray 2.60."""

    target_ongoing: float = 2.0
    """Items that are queued or in work, for each replica."""
    upscale_delay_s: float = 30.0
    downscale_delay_s: float = 600.0
    look_back_s: float = 30.0
    metrics_interval_s: float = 10.0
    upscaling_factor: float = 1.0
    """The share of the difference that is added."""
    downscaling_factor: float = 1.0


PUBLISHED = RayServeSettings()


class _Deployment:
    """The decisions of one stage."""

    def __init__(self, settings: RayServeSettings) -> None:
        self._settings = settings
        self._direction = 0
        self._since_s = 0.0

    def replicas(self, at_s: float, present: int, ongoing: float) -> int:
        settings = self._settings
        difference = ongoing / settings.target_ongoing - present
        factor = settings.upscaling_factor if difference > 0 else settings.downscaling_factor
        desired = max(1, math.ceil(present + factor * difference - _ROUNDING_S))
        if factor < 1 and difference <= -1 and desired == present:  # a small factor must not hold the number
            desired = max(1, present - 1)
        direction = (desired > present) - (desired < present)
        if direction != self._direction:
            self._direction, self._since_s = direction, at_s
        delay_s = settings.upscale_delay_s if direction > 0 else settings.downscale_delay_s
        if not direction or at_s - self._since_s < delay_s - _ROUNDING_S:
            return present
        self._direction = 0
        return desired


class RayServe(Policy):
    """One deployment for each stage."""

    def __init__(self, given: Given, settings: RayServeSettings = PUBLISHED) -> None:
        self._settings = settings
        self._deployments = [_Deployment(settings) for _ in given.stages]
        self._window = Window(settings.look_back_s)
        self._reported: list[float] = []
        self._reported_s = 0.0
        self._now: Measured | None = None

    def observe(self, measured: Measured) -> None:
        self._now = measured
        self._window.add(measured)
        if measured.at_s - self._reported_s >= self._settings.metrics_interval_s - _ROUNDING_S:
            self._reported = [self._window.waiting(index) for index in range(len(measured.stages))]
            self._reported_s = measured.at_s

    def decide(self) -> Replicas:
        now = self._now
        if now is None or not self._reported:
            return {}
        asked = {}
        for deployment, stage, ongoing in zip(self._deployments, now.stages, self._reported, strict=True):
            replicas = deployment.replicas(now.at_s, stage.replicas, ongoing)
            if replicas != stage.replicas:
                asked[stage.name] = replicas
        return asked
