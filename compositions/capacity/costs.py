"""The inputs of a prediction: the costs of stages, and the conditions under which they run."""

from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

# Waiting in a chain of worker groups: closed approximations, elementwise over arrays.
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
    """Mean wait of the items that have to wait at all, in a G/G/c queue."""
    wait: Array = (arrival_scv + service_scv) / 2.0 * service_s / (servers * (1.0 - utilization))
    return wait


def regular_arrivals(utilization: Array, arrival_scv: Array, service_scv: Array) -> Array:
    """Factor on a wait, 0..1: regular arrivals rarely meet a queue before the group is nearly full."""
    regular = np.maximum(0.0, 1.0 - arrival_scv)
    factor: Array = np.exp(-2.0 * (1.0 - utilization) * regular**2 / (3.0 * utilization * (arrival_scv + service_scv)))
    return factor


def share_that_waits(utilization: Array, servers: Array) -> Array:
    """Probability that all servers are busy (Sakasegawa's exponent)."""
    share: Array = utilization ** (np.sqrt(2.0 * (servers + 1.0)) - 1.0)
    return share


def departure_scv(utilization: Array, arrival_scv: Array, service_scv: Array) -> Array:
    """Return the squared variation of departures, by the single-server form: equal replicas scatter nothing."""
    busy = utilization**2
    return (1.0 - busy) * arrival_scv + busy * service_scv


def reorder_wait(spread_s: Array, interarrival_s: float) -> Array:
    """Mean wait for earlier items that replicas finish later, given the standard deviation of an item's way.

    The way of each item is taken as normal and independent of its neighbours'.
    """
    return spread_s * np.interp(interarrival_s / spread_s, _SPACING, _LEAD)


def filling_wait(bundle_items: float, rate_per_s: float) -> tuple[float, float]:
    """Mean and variance of an item's wait until the last of its bundle has come, at a steady pace."""
    if bundle_items <= 1 or rate_per_s <= 0:  # nobody waits for others, or nobody comes
        return 0.0, 0.0
    gap_s = 1 / rate_per_s
    return (bundle_items - 1) / 2 * gap_s, (bundle_items**2 - 1) / 12 * gap_s * gap_s


def lognormal_quantile(p50_s: Array, p95_s: Array, quantile: float) -> Array:
    """Any quantile of a latency taken as lognormal with this median and 95th percentile."""
    sigmas = NormalDist().inv_cdf(quantile) / _NORMAL_QUANTILES["p95"]
    with np.errstate(invalid="ignore"):
        found: Array = p50_s * (p95_s / p50_s) ** sigmas
    return found


def percentiles(mean_s: Array, variance_s2: Array) -> dict[str, Array]:
    """``p50``, ``p95``, ``p99`` of a latency taken as lognormal with this mean and variance."""
    log_variance = np.log1p(variance_s2 / mean_s**2)
    centre = np.log(mean_s) - log_variance / 2.0
    return {name: np.exp(centre + z * np.sqrt(log_variance)) for name, z in _NORMAL_QUANTILES.items()}


def devices(reserved: Array | float) -> Array:
    """Return the GPUs on which workers are that reserve so many together: shares fill one before the next."""
    count: Array = np.maximum(1.0, np.ceil(np.round(reserved, 6)))
    return count


PACED_ARRIVAL_CV = 0.1
"""Of the times between items of a source that keeps its pace; 1 would be independent users (Poisson)."""


@dataclass(frozen=True, slots=True)
class StageCost:
    """The cost of an item at a stage while busy: mean wall and CPU time, coefficient of variation of the wall time."""

    service_s: float
    cpu_s: float
    cv: float = 0.0
    at_once: float = 1
    """Calls of it that a worker has at a time, where it waits: between the steps of one the worker is free."""
    gpu_s: float = 0.0
    """Of its service time, what a GPU works for it; 0 where that was not measured."""
    gpus: float = 0.0
    """The share of a GPU that a worker for it alone reserves. Workers with shares sit on as few GPUs as hold them."""

    def of_bundle(self, items: float) -> "StageCost":
        """Return what so many together cost: items vary independently, and calls that wait overlap."""
        if items == 1:
            return self
        service_s = max(1.0, items / self.at_once) * self.service_s
        if self.at_once > 1:
            service_s = max(service_s, items * self.cpu_s)
        each = (self.cv / sqrt(items), max(1.0, self.at_once / items), items * self.gpu_s, self.gpus)
        return StageCost(service_s, items * self.cpu_s, *each)

    @property
    def held_s(self) -> float:
        """Return how long it keeps its worker from anything else."""
        return self.cpu_s if self.at_once > 1 else self.service_s


@dataclass(frozen=True, slots=True)
class Conditions:
    """Machine and load: ``cores`` that all workers share, the price of a hop into a group, and the input.

    Of a hop's ``hop_s``, ``hop_cpu_s`` is CPU (all of it when None). Without an input rate only the capacity is told.
    """

    cores: float
    hop_s: float
    input_rate_per_s: float | None
    hop_cpu_s: float | None = None
    arrival_cv: float = PACED_ARRIVAL_CV
    """Coefficient of variation of the times between arrivals."""
    bundle_items: float = 1.0
    """Mean number of items that travel together, one at least: they share a hop, and wait for each other."""
    bundle_limit: float = 1.0
    """So many may travel together, if more than that: under load bundles grow until they carry the rate."""

    @property
    def most_items(self) -> float:
        return max(self.bundle_items, self.bundle_limit)
