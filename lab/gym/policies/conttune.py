"""Port ContTune, continuous tuning by conservative Bayesian optimization: policy ``conttune``.

Source: Lian et al., "ContTune: Continuous Tuning by Conservative Bayesian Optimization for Distributed Stream Data
Processing Systems" (PVLDB 16, 2023), algorithms 1 and 2, and its published code (kernel, jitter). Big phase: while the
job is under-provisioned each operator gets the highest parallelism observed so far, which doubles if all have it. Small
phase, for an over-provisioned job: a Gaussian process over (parallelism, processing ability) gives the least
parallelism that is expected to sustain the rate; it is taken if an observation is within α = 3 of it, else the one that
DS2 computes. An observation of a parallelism is the mean of its last 5.

This port omits fitting the kernel's parameters (the length is the published initial 4.37, the amplitude the highest
ability observed) and histories of earlier runs. Our choices, absent in the paper: a look every 60 s; under-provisioned
is a backlog of more than the bound's worth of arrivals while a stage is utilized above 80 %, over-provisioned a job
without that backlog whose stages are utilized below 60 % on average; changes of less than 10 % of each stage are
skipped. If all workers are in use, the small phase follows at once, so that each stage has its share.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from dataclasses import dataclass

import numpy as np

from lab.gym.policies.port import Given, Measured, Policy, Replicas, StageNow
from lab.gym.policies.window import Window

_EXACT = 1e-9


@dataclass(frozen=True, slots=True)
class ContTuneSettings:
    """The paper's values where it has any."""

    interval_s: float = 60.0
    alpha: int = 3
    """The farthest observation that the Gaussian process is trusted at."""
    samples: int = 5
    """Observations of a parallelism that count."""
    length: float = 4.37
    """Length scale of the kernel, in replicas."""
    jitter: float = 1e-8
    most_used: float = 0.8
    """Above this utilization of a stage, a job with a backlog is under-provisioned."""
    least_used: float = 0.6
    """Below this mean utilization, a job without a backlog is over-provisioned."""
    least_change: float = 0.1


PUBLISHED = ContTuneSettings()


class ContTune(Policy):
    """One tuner for all stages of the app."""

    def __init__(self, given: Given, settings: ContTuneSettings = PUBLISHED) -> None:
        self._given, self._settings = given, settings
        self._window = Window(settings.interval_s)
        self._observed: dict[str, dict[int, deque[float]]] = {name: defaultdict(self._samples) for name in given.stages}
        self._now: Measured | None = None

    def observe(self, measured: Measured) -> None:
        self._now = measured
        self._window.add(measured)

    def decide(self) -> Replicas:
        now = self._now
        if now is None or not self._window.full:
            return {}
        stages, rate_per_s = now.stages, self._window.arrived_per_s
        used = [self._window.utilization(index) or 0.0 for index in range(len(stages))]
        for index, stage in enumerate(stages):
            service_s = self._window.service_s(index)
            if service_s is not None:
                self._observed[stage.name][stage.replicas].append(stage.replicas / service_s)
        self._window.clear()
        if not all(self._observed.values()):
            return {}
        behind = now.backlog > max(1.0, rate_per_s * self._given.bound_s)
        if behind and max(used) > self._settings.most_used:
            full = sum(stage.replicas for stage in stages) >= self._given.workers
            return self._small(stages, rate_per_s) if full else self._big(stages)
        if not behind and sum(used) / len(used) < self._settings.least_used:
            return self._small(stages, rate_per_s)
        return {}

    def _samples(self) -> deque[float]:
        return deque(maxlen=self._settings.samples)

    def _big(self, stages: tuple[StageNow, ...]) -> Replicas:
        tuned = [stage for stage in stages if stage.name not in self._given.stateful]
        most = max(max(observed) for observed in self._observed.values())
        if all(stage.replicas == most for stage in tuned):
            most *= 2
        return {stage.name: most for stage in tuned}

    def _small(self, stages: tuple[StageNow, ...], rate_per_s: float) -> Replicas:
        asked = {stage.name: self._least(self._observed[stage.name], rate_per_s) for stage in stages}
        pairs = [(stage.replicas, asked[stage.name]) for stage in stages]
        worthwhile = any(max(pair) >= (1 + self._settings.least_change) * min(pair) for pair in pairs)
        return asked if worthwhile else {}

    def _least(self, samples: dict[int, deque[float]], rate_per_s: float) -> int:
        """Return the least parallelism that sustains the rate (algorithm 2)."""
        observed = {replicas: sum(each) / len(each) for replicas, each in samples.items()}
        found = expected_least(observed, rate_per_s, self._given.workers, self._settings)
        if found is not None and min(abs(found - replicas) for replicas in observed) <= self._settings.alpha:
            return found
        nearest = max(observed)
        return max(1, math.ceil(rate_per_s * nearest / observed[nearest] - _EXACT))


def expected_least(observed: dict[int, float], rate_per_s: float, most: int, settings: ContTuneSettings) -> int | None:
    """Return the least parallelism up to ``most`` whose expected ability is the rate, or None."""
    x, y = np.array(list(observed), dtype=np.float64), np.array(list(observed.values()))
    at = np.arange(1, most + 1, dtype=np.float64)
    # A squared exponential of amplitude a has the same mean as one of amplitude 1: the amplitude cancels.
    cross = np.exp(-0.5 * ((at[:, None] - x[None, :]) / settings.length) ** 2)
    among = np.exp(-0.5 * ((x[:, None] - x[None, :]) / settings.length) ** 2)
    mean = cross @ np.linalg.solve(among + settings.jitter * np.eye(len(x)), y)
    enough = np.flatnonzero(mean >= rate_per_s)
    return int(at[enough[0]]) if len(enough) else None
