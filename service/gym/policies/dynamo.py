"""Policy ``dynamo``: the SLA planner of NVIDIA Dynamo, throughput-based.

Source: Dynamo documentation, "Planner Design", and its planner's defaults: every 180 s the rate is predicted by ARIMA
from the last 50 intervals; correction = measured latency / latency that the profile expects; replicas = predicted rate
/ throughput that one replica has, by the profile, at the target latency divided by the correction (its rule for decode
workers, here for every stage).

Ours: the profile is not measured beforehand but that of a queue before each replica, service time / (1 − utilization),
with the service time measured so far; a stage's target is its share of the bound by service time; the order of ARIMA
is (1, 1, 0), where the planner searches it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from itertools import pairwise

from service.gym.policies.port import Given, Measured, Policy, Replicas, StageNow
from service.gym.policies.window import Window

_INTERVALS = 50
_FULLEST, _EMPTIEST = 0.95, 0.05
"""Utilizations between which the profile is known."""


class Dynamo(Policy):
    """All stages of the app together."""

    INTERVAL_S = 180.0

    def __init__(self, given: Given) -> None:
        self._bound_s = given.bound_s
        self._window = Window(self.INTERVAL_S)
        self._rates: deque[float] = deque(maxlen=_INTERVALS)
        self._now: Measured | None = None

    def observe(self, measured: Measured) -> None:
        self._now = measured
        self._window.add(measured)

    def decide(self) -> Replicas:
        now = self._now
        if now is None or not self._window.full:
            return {}
        rate_per_s = self._window.arrived_per_s
        service_s = [self._service_s(index) for index in range(len(now.stages))]
        self._window.clear()
        self._rates.append(rate_per_s)
        if now.latency_s is None or not all(service_s):
            return {}
        correction = now.latency_s / _expected_s(rate_per_s, now.stages, service_s)
        predicted_per_s, slowness = predicted(list(self._rates)), self._bound_s / correction / sum(service_s)
        needed = [_replicas(predicted_per_s, seconds, seconds * slowness) for seconds in service_s]
        return {stage.name: replicas for stage, replicas in zip(now.stages, needed, strict=True)}

    def _service_s(self, stage: int) -> float:
        done = self._window.done(stage)
        return self._window.busy_s(stage) / done if done else 0.0


class DynamoScaled(Dynamo):
    """With its interval divided by 60: 3 s."""

    INTERVAL_S = 3.0


def predicted(rates: Sequence[float]) -> float:
    """The next of a series after ARIMA(1, 1, 0), by least squares; the last one of fewer than four."""
    steps = [later - earlier for earlier, later in pairwise(rates)]
    squares = sum(step * step for step in steps[:-1])
    if len(steps) < 3 or not squares:
        return rates[-1]
    slope = sum(earlier * later for earlier, later in pairwise(steps)) / squares
    return max(0.0, rates[-1] + min(1.0, max(-1.0, slope)) * steps[-1])


def _expected_s(rate_per_s: float, stages: Sequence[StageNow], service_s: Sequence[float]) -> float:
    """Latency by the profile, with the present replicas."""
    return sum(
        seconds / (1 - min(_FULLEST, rate_per_s * seconds / stage.replicas))
        for stage, seconds in zip(stages, service_s, strict=True)
    )


def _replicas(rate_per_s: float, service_s: float, target_s: float) -> int:
    """So many that each has no more than the utilization at which the profile says ``target_s``."""
    utilization = min(_FULLEST, max(_EMPTIEST, 1 - service_s / target_s))
    return max(1, math.ceil(rate_per_s * service_s / utilization - 1e-9))
