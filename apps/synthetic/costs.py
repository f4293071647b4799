"""What a stage of the synthetic app costs for an item: a pure function of options, item and stage."""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_right
from statistics import NormalDist

from apps.synthetic.options import SyntheticOptions

_NORMAL = NormalDist()


class Costs:
    """The service time of every (item, stage), in seconds; the same in every process for the same options."""

    def __init__(self, options: SyntheticOptions) -> None:
        self._options = options
        weights = options.stage_weights
        self._means_s = tuple(options.total_ms / 1000 * weight / sum(weights) for weight in weights)
        self._phases = options.phase_table
        self._phase_starts = [first for first, _ in self._phases]

    def of(self, item: int, stage: int) -> float:
        """Seconds that stage number ``stage`` (from 0) takes for ``item``."""
        factors = self._phases[bisect_right(self._phase_starts, item) - 1][1]
        return self._means_s[stage] * factors[stage] * self._drift(item) * self._variation(item, stage)

    def _drift(self, item: int) -> float:
        return 1.0 + (self._options.drift - 1.0) * item / max(1, self._options.items - 1)

    def _variation(self, item: int, stage: int) -> float:
        if self._options.distribution == "constant":
            return 1.0
        u = uniform(self._options.seed, item, stage)
        return (lognormal if self._options.distribution == "lognormal" else pareto)(u, self._options.cv)


def uniform(seed: int, item: int, stage: int) -> float:
    """A number strictly between 0 and 1 that looks random and is the same everywhere."""
    digest = hashlib.blake2b(f"{seed}:{item}:{stage}".encode(), digest_size=6).digest()
    return (int.from_bytes(digest) + 0.5) / 2**48


def lognormal(u: float, cv: float) -> float:
    """Quantile ``u`` of the lognormal distribution with mean 1."""
    variance = math.log1p(cv * cv)
    return math.exp(math.sqrt(variance) * _NORMAL.inv_cdf(u) - variance / 2)


def pareto(u: float, cv: float) -> float:
    """Quantile ``1 − u`` of the Pareto distribution with mean 1: shape ``1 + sqrt(1 + 1/cv²)``."""
    shape = 1.0 + math.sqrt(1.0 + 1.0 / (cv * cv))
    return float((shape - 1.0) / shape * u ** (-1.0 / shape))
