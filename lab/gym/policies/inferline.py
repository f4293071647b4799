"""Port InferLine: a planner that runs once, and a tuner that follows the arrivals: policy ``inferline``.

Source: Crankshaw et al., "InferLine: Latency-Aware Provisioning and Scaling for Prediction Serving Pipelines" (SoCC
2020), sections 4 (planner) and 5 (tuner). The planner adds replicas at the bottleneck until a simulation of the sample
arrivals meets the objective, then takes away what it does not need. The tuner compares traffic envelopes: the highest
rate in any window of the service time, doubled up to 60 s. Where the last minute's envelope exceeds the sample's, each
stage gets ceil(rate / (μ · ρ)) replicas, where μ is a replica's rate and ρ the stage's utilization in the plan. With no
change for 15 s, a stage may lose replicas: the rate is the highest of the last 30 s in windows of 5 s, ρ the lowest of
all stages (here: of those that may have replicas).

This port omits choice of batches and hardware, pipelines that branch (each stage sees each item). Our choices: there is
no profile and no sample beforehand, so the first minute's arrivals and mean service times serve as both, and until then
stages share all workers equally; windows are whole turns.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lab.gym.policies.port import Given, Measured, Policy, Replicas
from lab.gym.policies.window import Window

_ROUNDING_S = 1e-6
_EXACT = 1e-9


@dataclass(frozen=True, slots=True)
class InferLineSettings:
    """The paper's values."""

    plan_s: float = 60.0
    """Time after which the plan is made. (Ours.)"""
    longest_s: float = 60.0
    """The longest window of an envelope, and the time over which it is taken."""
    stable_s: float = 15.0
    """Time without a change before replicas are taken away."""
    look_back_s: float = 30.0
    """Time whose highest rate decides how many replicas are left."""
    rate_s: float = 5.0
    """The window of that rate."""


PUBLISHED = InferLineSettings()


class InferLine(Policy):
    """One planner and one tuner for all stages of the app."""

    def __init__(self, given: Given, settings: InferLineSettings = PUBLISHED) -> None:
        self._given, self._settings = given, settings
        self._profile = Window(settings.plan_s)
        self._arrived: deque[int] = deque()
        self._now: Measured | None = None
        self._rates_per_s: list[float] = []
        """Items/s that one replica of each stage serves, once there is a plan."""
        self._used: list[float] = []
        """Utilization of each stage in the plan."""
        self._lowest = 1.0
        """Lowest utilization of the stages that may have replicas."""
        self._windows: list[int] = []
        self._envelope_per_s: list[float] = []
        self._changed_s = 0.0

    def observe(self, measured: Measured) -> None:
        self._now = measured
        if not self._rates_per_s:
            self._profile.add(measured)
        self._arrived.append(measured.arrived)
        while len(self._arrived) > self._turns(self._settings.longest_s):
            self._arrived.popleft()

    def decide(self) -> Replicas:
        now = self._now
        if now is None:
            return {}
        asked = self._tuned(now) if self._rates_per_s else self._planned(now)
        present = {stage.name: stage.replicas for stage in now.stages}
        changed = {name: count for name, count in asked.items() if count != present[name]}
        if changed:
            self._changed_s = now.at_s
        return changed

    def _turns(self, seconds: float) -> int:
        elapsed_s = self._now.elapsed_s if self._now is not None else seconds
        return max(1, round(seconds / elapsed_s))

    def _planned(self, now: Measured) -> dict[str, int]:
        service_s = [self._profile.service_s(index) for index in range(len(now.stages))]
        known = [seconds for seconds in service_s if seconds is not None]
        if not self._profile.full or len(known) < len(service_s) or not self._profile.arrived:
            share = max(1, self._given.workers // len(now.stages))
            return {stage.name: share for stage in now.stages}
        due_s = instants(self._arrived, now.elapsed_s)
        alone = [stage.name in self._given.stateful for stage in now.stages]
        replicas = plan(due_s, known, alone, self._given)
        self._rates_per_s = [1 / seconds for seconds in known]
        rate_per_s = self._profile.arrived_per_s
        self._used = [rate_per_s * s / count for s, count in zip(known, replicas, strict=True)]
        self._lowest = min((used for used, single in zip(self._used, alone, strict=True) if not single), default=1.0)
        longest = self._turns(self._settings.longest_s)
        self._windows = [self._turns(sum(known))]
        while self._windows[-1] * 2 <= longest:
            self._windows.append(self._windows[-1] * 2)
        self._envelope_per_s = envelope(self._arrived, self._windows, now.elapsed_s)
        return {stage.name: count for stage, count in zip(now.stages, replicas, strict=True)}

    def _tuned(self, now: Measured) -> dict[str, int]:
        observed = envelope(self._arrived, self._windows, now.elapsed_s)
        pairs = zip(observed, self._envelope_per_s, strict=True)
        exceeding = [rate for rate, planned in pairs if rate > planned + _EXACT]
        if exceeding:
            needed = self._needed(max(exceeding), self._used)
            return {s.name: max(s.replicas, count) for s, count in zip(now.stages, needed, strict=True)}
        if now.at_s - self._changed_s < self._settings.stable_s - _ROUNDING_S:
            return {}
        recent = list(self._arrived)[-self._turns(self._settings.look_back_s) :]
        rate_per_s = envelope(recent, [self._turns(self._settings.rate_s)], now.elapsed_s)[0]
        needed = self._needed(rate_per_s, [self._lowest] * len(self._used))
        return {s.name: min(s.replicas, count) for s, count in zip(now.stages, needed, strict=True)}

    def _needed(self, rate_per_s: float, used: Sequence[float]) -> list[int]:
        pairs = zip(self._rates_per_s, used, strict=True)
        return [max(1, math.ceil(rate_per_s / (each * share) - _EXACT)) for each, share in pairs]


def envelope(arrived: Sequence[int] | deque[int], windows: Sequence[int], turn_s: float) -> list[float]:
    """Return the highest rate of arrivals in any window of each of these lengths, in turns."""
    total = np.concatenate(([0], np.cumsum(np.fromiter(arrived, dtype=np.int64))))
    rates = []
    for turns in windows:
        reach = min(turns, len(total) - 1)
        rates.append(float((total[reach:] - total[: len(total) - reach]).max()) / (turns * turn_s))
    return rates


def instants(arrived: Sequence[int] | deque[int], turn_s: float) -> list[float]:
    """Return arrival times from counts of turns, evenly spread within each turn."""
    return [(turn + (item + 0.5) / count) * turn_s for turn, count in enumerate(arrived) for item in range(count)]


def plan(due_s: Sequence[float], service_s: Sequence[float], alone: Sequence[bool], given: Given) -> list[int]:
    """Return the fewest replicas with which a simulation of these arrivals meets the objective, found greedily.

    A stage that stays ``alone`` has one replica. Where the workers do not suffice, all of them are used.
    """
    replicas = [1] * len(service_s)
    free = [index for index in range(len(replicas)) if not alone[index]]
    while free and sum(replicas) < given.workers and share_in_time(due_s, service_s, replicas, given) < given.share:
        replicas[max(free, key=lambda index: service_s[index] / replicas[index])] += 1
    for index in sorted(free, key=lambda index: service_s[index]):
        while replicas[index] > 1:
            fewer = [count - (other == index) for other, count in enumerate(replicas)]
            if share_in_time(due_s, service_s, fewer, given) < given.share:
                break
            replicas = fewer
    return replicas


def share_in_time(due_s: Sequence[float], service_s: Sequence[float], replicas: Sequence[int], given: Given) -> float:
    """Return the share of items within the bound, by simulating a queue with first come, first served at each stage."""
    at_s = list(due_s)
    for seconds, count in zip(service_s, replicas, strict=True):
        free_s = [0.0] * count
        for item, ready_s in enumerate(at_s):
            at_s[item] = max(ready_s, heapq.heappop(free_s)) + seconds
            heapq.heappush(free_s, at_s[item])
    late = sum(done - due > given.bound_s + _EXACT for done, due in zip(at_s, due_s, strict=True))
    return 1 - late / len(at_s)
