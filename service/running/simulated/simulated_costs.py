"""What the stages of a scenario cost, item by item: drawn once, the same in every composition."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from runtime.pools.simulated_machine import Cost, CostFunction
from service.running.simulated.scenario import SimulatedStage

_DRAWS = 4096
"""Service-time factors drawn for each stage; serial numbers go round in them."""


def costs_of(stages: Sequence[SimulatedStage], seed: int, now_s: Callable[[], float]) -> CostFunction:
    """Lognormal service times with the mean and cv of each stage, the same for an item in every composition."""
    draws = {stage.name: _factors(stage, np.random.default_rng((seed, index))) for index, stage in enumerate(stages)}
    by_name = {stage.name: stage for stage in stages}

    def cost(name: str, serial: int) -> Cost:
        stage = by_name[name]
        service_s = stage.service_s * draws[name][serial % _DRAWS] * drift(stage.factors, now_s())
        return Cost(service_s * (1 - stage.wait_share), service_s * stage.wait_share)

    return cost


def _factors(stage: SimulatedStage, random: np.random.Generator) -> list[float]:
    if not stage.cv:
        return [1.0] * _DRAWS
    variance = math.log(1 + stage.cv**2)
    drawn = random.lognormal(-variance / 2, math.sqrt(variance), _DRAWS)
    return [float(value) for value in drawn / drawn.mean()]


def drift(factors: tuple[tuple[float, float], ...], at_s: float) -> float:
    """By what a stage's service time is multiplied at a time."""
    if not factors:
        return 1.0
    return float(np.interp(at_s, [t for t, _ in factors], [factor for _, factor in factors]))
