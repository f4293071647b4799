"""Port the streaming autoscaler of NVIDIA cosmos-xenna: policy ``xenna``.

Source: cosmos-xenna at 7f0fcee (August 2026), ``autoscaling_algorithms.rs`` and ``StreamingSpecificSpec`` (interval 3
min, speeds over the last 3 min, at least 5 samples). This is its default, ``FRAGMENTATION_BASED``: it uses **all**
workers that there are to maximize throughput, whatever the load. The slowest stage (workers · speed) gets one worker
more until none is free; then one of the stage that is fastest without it, as long as that stage stays above the
slowest. A stage without samples counts with speed 1, as there. This port omits placement on nodes and accelerators, and
with it head-room by over-allocation, which needs workers of different kinds; ``SATURATION_AWARE``, which is off by
default and picks the bottleneck by the gradient of queues. Our choices: a stage with state is one whose number of
workers its user fixed at 1; an item is a batch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lab.gym.policies.port import Given, Measured, Policy, Replicas
from lab.gym.policies.window import Window

_ROUNDING_S = 1e-6


@dataclass(frozen=True, slots=True)
class XennaSettings:
    """The defaults of cosmos-xenna."""

    interval_s: float = 180.0
    window_s: float = 180.0
    """Time over which speeds are measured."""
    fewest: int = 5
    """Minimum number of items over which a speed is measured; older items count until there are enough."""


PUBLISHED = XennaSettings()


class Xenna(Policy):
    """One solver for all stages of the app."""

    def __init__(self, given: Given, settings: XennaSettings = PUBLISHED) -> None:
        self._given, self._settings = given, settings
        self._window = Window(settings.window_s)
        self._speeds = [1.0] * len(given.stages)
        self._now: Measured | None = None
        self._last_s = -math.inf

    def observe(self, measured: Measured) -> None:
        self._now = measured
        self._window.add(measured)

    def decide(self) -> Replicas:
        now = self._now
        if now is None or now.at_s - self._last_s < self._settings.interval_s - _ROUNDING_S:
            return {}
        self._last_s = now.at_s
        for index in range(len(now.stages)):
            service_s = self._window.service_s(index)
            if service_s is not None and self._window.done(index) >= self._settings.fewest:
                self._speeds[index] = 1 / service_s
        free = [index for index, stage in enumerate(now.stages) if stage.name not in self._given.stateful]
        if not free:
            return {}
        workers = self._given.workers - (len(now.stages) - len(free))
        present = [now.stages[index].replicas for index in free]
        solved = balanced([self._speeds[index] for index in free], present, workers)
        return {now.stages[index].name: replicas for index, replicas in zip(free, solved, strict=True)}


def balanced(speeds: Sequence[float], present: Sequence[int], workers: int) -> list[int]:
    """Return how ``workers`` are shared among stages so that the slowest stage is as fast as it can be."""
    replicas = list(present)
    while True:
        slowest = min(range(len(replicas)), key=lambda index: replicas[index] * speeds[index])
        if sum(replicas) >= workers:
            least = replicas[slowest] * speeds[slowest]
            without = {
                index: (count - 1) * speeds[index]
                for index, count in enumerate(replicas)
                if index != slowest and count > 1 and (count - 1) * speeds[index] > least
            }
            if not without:
                return replicas
            replicas[max(without, key=without.__getitem__)] -= 1
        replicas[slowest] += 1
