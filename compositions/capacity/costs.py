"""The inputs of a prediction: the costs of stages, and the conditions under which they run."""

from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

# Waits in a chain of worker groups: closed-form approximations, elementwise over arrays.
#
# Sources: Allen, Probability, Statistics and Queueing Theory, 1990 (two-moment scaling of waits, Allen-Cunneen);
# Sakasegawa, An approximation formula, 1977 (several servers); Krämer and Langenbach-Belz, Approximate formulae for
# the delay in the queueing system GI/G/1, 1976 (regular arrivals); Whitt, The Queueing Network Analyzer, 1983
# (departures). All times in seconds; ``scv`` is a squared coefficient of variation; ``utilization`` is below 1.

Array = npt.NDArray[np.float64]

# E[max over j >= 0 of (Z_j - j x)] for independent standard normal Z_j, integrated numerically, at these x.
_SPACING = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
_LEAD = (1.8739, 1.5084, 1.2116, 0.9017, 0.65, 0.4947, 0.3306, 0.2273, 0.1092, 0.0507, 0.0086, 0.001, 0.0)

_NORMAL_QUANTILES = {"p50": 0.0, "p95": 1.6449, "p99": 2.3263}


def wait_if_any(utilization: Array, servers: Array, service_s: Array, arrival_scv: Array, service_scv: Array) -> Array:
    """Return the mean wait of those items that have to wait, in a G/G/c queue."""
    wait: Array = (arrival_scv + service_scv) / 2.0 * service_s / (servers * (1.0 - utilization))
    return wait


def regular_arrivals(utilization: Array, arrival_scv: Array, service_scv: Array) -> Array:
    """Return a factor on a wait, 0..1: regular arrivals rarely meet a queue unless the group is nearly saturated."""
    regular = np.maximum(0.0, 1.0 - arrival_scv)
    factor: Array = np.exp(-2.0 * (1.0 - utilization) * regular**2 / (3.0 * utilization * (arrival_scv + service_scv)))
    return factor


def share_that_waits(utilization: Array, servers: Array) -> Array:
    """Return the probability that all servers are busy (Sakasegawa's exponent)."""
    share: Array = utilization ** (np.sqrt(2.0 * (servers + 1.0)) - 1.0)
    return share


def departure_scv(utilization: Array, arrival_scv: Array, service_scv: Array) -> Array:
    """Return the squared variation of departures, by the single-server form also for several replicas."""
    busy = utilization**2
    return (1.0 - busy) * arrival_scv + busy * service_scv


def reorder_wait(spread_s: Array, interarrival_s: float) -> Array:
    """Return the mean wait for earlier items that replicas finish later. ``spread_s``: standard deviation of an item's
    time in replicated groups, which is taken as normal and independent of its neighbours'."""
    return spread_s * np.interp(interarrival_s / spread_s, _SPACING, _LEAD)


def filling_wait(bundle_items: float, rate_per_s: float) -> tuple[float, float]:
    """Return mean and variance of an item's wait until the last item of its bundle has arrived, at a steady rate."""
    if bundle_items <= 1 or rate_per_s <= 0:  # single items do not wait, and without input there are none
        return 0.0, 0.0
    gap_s = 1 / rate_per_s
    return (bundle_items - 1) / 2 * gap_s, (bundle_items**2 - 1) / 12 * gap_s * gap_s


def lognormal_quantile(p50_s: Array, p95_s: Array, quantile: float) -> Array:
    """Return a quantile of a latency that is taken as lognormal with this median and 95th percentile."""
    sigmas = NormalDist().inv_cdf(quantile) / _NORMAL_QUANTILES["p95"]
    with np.errstate(invalid="ignore"):
        found: Array = p50_s * (p95_s / p50_s) ** sigmas
    return found


def percentiles(mean_s: Array, variance_s2: Array) -> dict[str, Array]:
    """Return ``p50``, ``p95``, ``p99`` of a latency that is taken as lognormal with this mean and variance."""
    log_variance = np.log1p(variance_s2 / mean_s**2)
    centre = np.log(mean_s) - log_variance / 2.0
    return {name: np.exp(centre + z * np.sqrt(log_variance)) for name, z in _NORMAL_QUANTILES.items()}


def devices(reserved: Array | float) -> Array:
    """Return the number of GPUs that workers use which reserve ``reserved`` together: shares fill one GPU first."""
    count: Array = np.maximum(1.0, np.ceil(np.round(reserved, 6)))
    return count


PACED_ARRIVAL_CV = 0.1
"""Coefficient of variation of the times between items of a paced source; 1 would be independent users (Poisson)."""


@dataclass(frozen=True, slots=True)
class StageCost:
    """The cost of an item at a stage: mean wall and CPU time, and the wall time's coefficient of variation."""

    service_s: float
    cpu_s: float
    cv: float = 0.0
    at_once: float = 1
    """Concurrent calls per worker, for a stage that waits: while one call waits, the worker runs another."""
    gpu_s: float = 0.0
    """Part of the service time in which a GPU works; 0 if not measured."""
    gpus: float = 0.0
    """GPUs that a worker for the stage alone reserves. Workers with shares of a GPU use as few GPUs as possible."""

    def of_bundle(self, items: float) -> "StageCost":
        """Return the cost of a bundle of ``items``, which vary independently; calls that wait overlap."""
        if items == 1:
            return self
        service_s = max(1.0, items / self.at_once) * self.service_s
        if self.at_once > 1:
            service_s = max(service_s, items * self.cpu_s)
        each = (self.cv / sqrt(items), max(1.0, self.at_once / items), items * self.gpu_s, self.gpus)
        return StageCost(service_s, items * self.cpu_s, *each)

    @property
    def held_s(self) -> float:
        """Time for which a call blocks its worker, in seconds."""
        return self.cpu_s if self.at_once > 1 else self.service_s


@dataclass(frozen=True, slots=True)
class Conditions:
    """Machine and load: ``cores`` that all workers share, the time of a hop into a group, and the input.

    ``hop_cpu_s``: part of ``hop_s`` that is CPU time; None: all. Without an input rate only the capacity is predicted.
    """

    cores: float
    hop_s: float
    input_rate_per_s: float | None
    hop_cpu_s: float | None = None
    arrival_cv: float = PACED_ARRIVAL_CV
    """Coefficient of variation of the times between arrivals."""
    bundle_items: float = 1.0
    """Mean bundle size, at least 1: the items of a bundle share a hop, and wait for each other."""
    bundle_limit: float = 1.0
    """Largest bundle size: under load bundles grow until the groups can process the rate."""

    @property
    def most_items(self) -> float:
        return max(self.bundle_items, self.bundle_limit)
