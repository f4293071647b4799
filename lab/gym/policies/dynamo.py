"""Port the planner of NVIDIA Dynamo in its two modes: policies ``dynamo`` (throughput) and ``dynamo-load``.

Source: Dynamo documentation, "Planner Guide" and "Planner Design", and the defaults and ``load_scaling.py`` of
``dynamo.planner`` (2026). Throughput mode, every 180 s: the rate is predicted by ARIMA from the last 50 intervals;
correction = measured latency / latency that the profile expects; replicas = predicted rate / throughput of one replica
at the target latency divided by the correction. Load mode, every 5 s and not while a change is under way: one more
replica if each replica is expected to miss the target latency for the next request; one fewer if with n/(n − 1) times
the queue the part of the latency that the queue causes stays below 80 % of what the target leaves for it.

This port omits prefill and decode engines with their tokens, caches and regressions; budgets of accelerators; both
modes together. Our choices: the profile of the throughput mode is a queue before each replica, service time / (1 −
utilization); a request's latency in the load mode is service time · (items at the stage for each replica + 1); service
times are those measured so far; a stage's target is its share of the bound by service time; the order of ARIMA is (1,
1, 0), where the planner searches it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from lab.gym.policies.port import Given, Measured, Policy, Replicas, StageNow
from lab.gym.policies.window import Window

_FULLEST, _EMPTIEST = 0.95, 0.05
"""Utilizations between which the profile is known."""
_EXACT = 1e-9


@dataclass(frozen=True, slots=True)
class DynamoSettings:
    """The defaults of the throughput mode."""

    interval_s: float = 180.0
    intervals: int = 50
    """Number of past rates that the prediction uses."""


@dataclass(frozen=True, slots=True)
class DynamoLoadSettings:
    """The defaults of the load mode."""

    interval_s: float = 5.0
    sensitivity: float = 0.8
    """The share of the time for queueing that may be used up after one replica is gone."""
    intervals: int = 64
    """Intervals over which service times are measured."""
    fewest: int = 5
    """Items that a stage has finished before anything is decided."""


PUBLISHED = DynamoSettings()
PUBLISHED_LOAD = DynamoLoadSettings()


class Dynamo(Policy):
    """The throughput mode, for all stages of the app together."""

    def __init__(self, given: Given, settings: DynamoSettings = PUBLISHED) -> None:
        self._bound_s = given.bound_s
        self._window = Window(settings.interval_s)
        self._rates: deque[float] = deque(maxlen=settings.intervals)
        self._now: Measured | None = None

    def observe(self, measured: Measured) -> None:
        self._now = measured
        self._window.add(measured)

    def decide(self) -> Replicas:
        now = self._now
        if now is None or not self._window.full:
            return {}
        rate_per_s = self._window.arrived_per_s
        measured_s = [self._window.service_s(index) for index in range(len(now.stages))]
        service_s = [seconds for seconds in measured_s if seconds is not None]
        self._window.clear()
        self._rates.append(rate_per_s)
        if now.latency_s is None or len(service_s) < len(now.stages):
            return {}
        correction = now.latency_s / _expected_s(rate_per_s, now.stages, service_s)
        predicted_per_s, slowness = predicted(list(self._rates)), self._bound_s / correction / sum(service_s)
        needed = [_replicas(predicted_per_s, seconds, seconds * slowness) for seconds in service_s]
        return {stage.name: replicas for stage, replicas in zip(now.stages, needed, strict=True)}


class DynamoLoad(Policy):
    """The load mode, which decides for each stage."""

    def __init__(self, given: Given, settings: DynamoLoadSettings = PUBLISHED_LOAD) -> None:
        self._bound_s, self._settings = given.bound_s, settings
        self._queues = Window(settings.interval_s)
        self._services = Window(settings.interval_s * settings.intervals)
        self._now: Measured | None = None

    def observe(self, measured: Measured) -> None:
        self._now = measured
        self._queues.add(measured)
        self._services.add(measured)

    def decide(self) -> Replicas:
        now = self._now
        if now is None or not self._queues.full:
            return {}
        queues = [self._queues.waiting(index) for index in range(len(now.stages))]
        self._queues.clear()
        stages = range(len(now.stages))
        service_s = [self._services.service_s(index) for index in stages]
        known = [seconds for seconds in service_s if seconds is not None]
        if len(known) < len(service_s) or any(self._services.done(each) < self._settings.fewest for each in stages):
            return {}
        asked = {}
        for stage, queue, seconds in zip(now.stages, queues, known, strict=True):
            change = self._change(stage, queue, seconds, self._bound_s * seconds / sum(known))
            if change:
                asked[stage.name] = stage.replicas + change
        return asked

    def _change(self, stage: StageNow, queue: float, service_s: float, target_s: float) -> int:
        replicas = stage.replicas
        if stage.ready != replicas:
            return 0
        if service_s * (queue / replicas + 1) > target_s:
            return 1
        for_queue_s = (target_s - service_s) * self._settings.sensitivity
        fits = replicas > 1 and for_queue_s > 0 and service_s * queue / (replicas - 1) < for_queue_s
        return -1 if fits else 0


def predicted(rates: Sequence[float]) -> float:
    """Return the next value of a series by ARIMA(1, 1, 0) with least squares; the last of fewer than four values."""
    steps = [later - earlier for earlier, later in pairwise(rates)]
    squares = sum(step * step for step in steps[:-1])
    if len(steps) < 3 or not squares:
        return rates[-1]
    slope = sum(earlier * later for earlier, later in pairwise(steps)) / squares
    return max(0.0, rates[-1] + min(1.0, max(-1.0, slope)) * steps[-1])


def _expected_s(rate_per_s: float, stages: Sequence[StageNow], service_s: Sequence[float]) -> float:
    """Return the latency that the profile expects with the present replicas."""
    return sum(
        seconds / (1 - min(_FULLEST, rate_per_s * seconds / stage.replicas))
        for stage, seconds in zip(stages, service_s, strict=True)
    )


def _replicas(rate_per_s: float, service_s: float, target_s: float) -> int:
    """Return the replicas whose utilization is the one at which the profile expects ``target_s``."""
    utilization = min(_FULLEST, max(_EMPTIEST, 1 - service_s / target_s))
    return max(1, math.ceil(rate_per_s * service_s / utilization - _EXACT))
