"""Predict throughput, latency, workers and CPU use of any composition from the measured costs of the stages."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from compositions.capacity.costs import (
    Array,
    Conditions,
    StageCost,
    departure_scv,
    devices,
    filling_wait,
    percentiles,
    regular_arrivals,
    reorder_wait,
    share_that_waits,
    wait_if_any,
)
from compositions.capacity.prediction import Prediction, Predictions
from compositions.capacity.table import CompositionTable
from compositions.errors import CompositionError, Fault
from compositions.model import Composition

_ALMOST_IDLE = 1e-12


@dataclass(frozen=True, slots=True)
class Shared:
    """A shared resource, cores or GPUs: its work for a task in seconds, by group and composition. By composition: its
    number, and the number of workers that may use it at a time."""

    work_s: Array
    count: Array
    users: Array


@dataclass(frozen=True, slots=True)
class Load:
    """The cost of a task in every group of every composition, hops included: shape (groups, compositions)."""

    service_s: Array
    variance_s2: Array
    """Variance of the service time; stages vary independently."""
    servers: Array
    """Tasks that the group's workers serve at a time: its replicas, or more if calls wait; may be a fraction."""
    shared: tuple[Shared, ...]
    """The cores, and the GPUs if their times are known."""


@dataclass(frozen=True, slots=True)
class Latency:
    """Latencies by composition; if the capacity of a row is below the rate, only ``base_s`` has a meaning."""

    base_s: Array
    mean_s: Array
    variance_s2: Array


def latency_at(table: CompositionTable, load: Load, rate_per_s: float, arrival_cv: float) -> Latency:
    """Return the time of a task: service, waits for cores and GPUs, waits for workers, and for earlier items."""
    alone = load.service_s.sum(axis=0)
    arrival_scv = np.full(len(table), arrival_cv**2)
    sharings = [(each, _sharing(each, load, rate_per_s, arrival_scv)) for each in load.shared]
    sharing = np.maximum.reduce([times for _, times in sharings])
    shared = sum(((times - 1.0) * each.work_s.sum(axis=0) for each, times in sharings), np.zeros(len(table)))
    mean, variance, overtaking = alone + shared, shared**2, np.zeros(len(table))
    for group in range(len(load.servers)):
        replicas, service = load.servers[group], load.service_s[group]
        stretched = sum(((times - 1.0) * each.work_s[group] for each, times in sharings), service)
        busy = _utilization(rate_per_s * service / replicas, rate_per_s * stretched / replicas)
        service_scv = _scv(load.variance_s2[group], service)
        queued = wait_if_any(busy, replicas, stretched, arrival_scv, service_scv)
        queued *= regular_arrivals(busy, arrival_scv, service_scv)
        spread = load.variance_s2[group] * sharing**2
        wait = queued * share_that_waits(busy, replicas)
        mean += wait
        # A wait that occurs is taken as exponential (Whitt, Approximations for the GI/G/m queue, 1993).
        variance += wait * (2.0 * queued - wait) + spread
        overtaking += np.where(replicas > 1, spread, 0.0)
        arrival_scv = departure_scv(busy, arrival_scv, service_scv)
    mean += reorder_wait(np.sqrt(overtaking), np.divide(1.0, rate_per_s))
    for each, times in sharings:  # even with all workers busy, each one gets its part of the resource
        most = np.maximum(1.0, each.users / each.count)
        alone = alone + (np.minimum(times, most) - 1.0) * each.work_s.sum(axis=0)
    return Latency(alone, mean, variance)


def _sharing(shared: Shared, load: Load, rate_per_s: float, arrival_scv: Array) -> Array:
    """Return the factor by which work takes longer because workers share cores or GPUs; infinite if these saturate.

    The resource is modelled as a queue of its own whose customers are whole items. No queue forms with at most as many
    workers as cores or GPUs, and a full one with many more. Regular arrivals shorten it less than elsewhere, as items
    at all stages compete.
    """
    busy = np.maximum(rate_per_s * shared.work_s.sum(axis=0) / shared.count, _ALMOST_IDLE)
    item_scv = _scv(load.variance_s2.sum(axis=0), load.service_s.sum(axis=0))
    queued = wait_if_any(busy, shared.count, np.ones_like(busy), arrival_scv, item_scv)
    contention = np.maximum(0.0, 1.0 - shared.count / shared.users)
    return np.where(busy < 1.0, 1.0 + contention * queued * share_that_waits(busy, shared.count), np.inf)


def _utilization(alone: Array, shared: Array) -> Array:
    """Return the utilization of a group whose work takes longer on shared cores. It is below 1 exactly while ``alone``
    is, so that latency is finite below the capacity and nowhere else."""
    return np.maximum(shared / (1.0 + shared - alone), _ALMOST_IDLE)


def _scv(variance: Array, mean: Array) -> Array:
    return np.divide(variance, mean**2, out=np.zeros_like(mean), where=mean > 0)


_GATHERED = 1.5
"""Bundles before the first group: half a bundle that fills and one that is admitted. In addition there are one per
worker and a waiting one per group while the weakest group is always busy; groups after it have fewer."""


def latency_while_growing(
    table: CompositionTable, smaller: tuple[float, Array], larger: tuple[float, Array], rate_per_s: float
) -> Array:
    """Return the mean latency in seconds for rates between the capacities with ``smaller`` and ``larger`` bundles, each
    given as its items and its capacity in items/s; meaningless for other rates.

    The time of a bundle at the weakest group is linear in its size. Bundles grow to the size at which this time equals
    the time in which the next bundle fills.
    """
    (few, few_per_s), (many, many_per_s) = smaller, larger
    item_s = (many / many_per_s - few / few_per_s) / (many - few)
    bundle_s = few / few_per_s - few * item_s
    gathers_s = bundle_s / (1.0 - rate_per_s * item_s)
    return gathers_s * (_GATHERED + table.workers + table.groups)


def predict(composition: Composition, costs: Mapping[str, StageCost], conditions: Conditions) -> Prediction:
    """Return the prediction for one composition."""
    return predict_all([composition], costs, conditions)[0]


def predict_all(
    compositions: CompositionTable | Sequence[Composition], costs: Mapping[str, StageCost], conditions: Conditions
) -> Predictions:
    """Predict compositions of one app; fast for a ``CompositionTable`` that is kept between calls.

    The capacity is the minimum of that of the weakest group, ``replicas / (sum of service times + hop)``, that of the
    ``cores``, ``cores / sum of CPU times``, and that of the GPUs, computed like the cores. Waiting takes no core: for a
    stage that waits, with ``N`` concurrent calls, only the CPU time counts in that sum, and a worker processes at most
    ``N / service time`` of its items per second. Latency adds the waits for workers, for cores and GPUs, and for
    earlier items (``latency_at``). Items of a bundle share a hop. Each waits for its bundle to fill and, in every
    group, for the whole bundle to be processed. If bundles may grow, the capacity is that of the largest bundles.
    Percentiles take the latency as lognormal. Compared with simulations they are too low (by up to 40 %) if many
    workers of very variable stages share cores that are nearly saturated.

    Raises: CompositionError if a stage has no cost, or if compositions arrange different stages.
    """
    table = compositions if isinstance(compositions, CompositionTable) else CompositionTable(compositions)
    items, most = conditions.bundle_items, conditions.most_items
    load = _load(table, costs, conditions, items)
    full = load if most == items else _load(table, costs, conditions, most)
    # Work without a cost has no limit: division by zero gives infinity, as intended.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        group_rates, shared_rates = _task_rates(table, full)
        limits = np.vstack([group_rates.min(axis=0), *shared_rates])
        capacity = most * limits.min(axis=0)
        columns = _at_rate(table, load, capacity, conditions)
    return Predictions(
        throughput_per_s=capacity,
        workers=table.workers,
        bottleneck_group=group_rates.argmin(axis=0),
        limited_by_cores=limits[1] < limits[0],
        limited_by_gpus=(limits[2:] < limits[:2].min(axis=0)).any(axis=0),
        bundle_items=np.full(len(table), most),
        **columns,
    )


def _task_rates(table: CompositionTable, load: Load) -> tuple[Array, list[Array]]:
    """Return the capacity in tasks/s of each group, and of each shared resource."""
    shared = [each.count / each.work_s.sum(axis=0) for each in load.shared]
    return np.where(table.is_group, load.servers / load.service_s, np.inf), shared


def _load(table: CompositionTable, costs: Mapping[str, StageCost], conditions: Conditions, items: float) -> Load:
    """Return the load of all groups for bundles of ``items`` items."""
    missing = [name for name in table.stages if name not in costs]
    if missing:
        known = ", ".join(costs) or "none"
        raise CompositionError([Fault("", f"the cost of stage {', '.join(missing)} is not known; known are {known}")])
    hop_s = conditions.hop_s
    hop_cpu_s = hop_s if conditions.hop_cpu_s is None else conditions.hop_cpu_s
    per_stage = [costs[name].of_bundle(items) for name in table.stages]
    service_s = table.per_group([cost.service_s for cost in per_stage]) + hop_s * table.is_group
    cpu_s = table.per_group([cost.cpu_s for cost in per_stage]) + hop_cpu_s * table.is_group
    cores = Shared(cpu_s, np.full(len(table), conditions.cores, dtype=float), table.workers.astype(float))
    return Load(
        service_s,
        table.per_group([(cost.cv * cost.service_s) ** 2 for cost in per_stage]),
        _servers(table, per_stage, service_s, hop_s),
        (cores, *_gpus(table, per_stage)),
    )


def _gpus(table: CompositionTable, per_stage: Sequence[StageCost]) -> Iterator[Shared]:
    """Yield the GPUs as a shared resource, if their times are known: a GPU works for one call at a time."""
    if not any(cost.gpu_s and cost.gpus for cost in per_stage):
        return
    work_s = table.per_group([cost.gpu_s for cost in per_stage])
    shares = table.most_in_group([cost.gpus for cost in per_stage])
    reserved = np.minimum((table.replicas * shares).sum(axis=0), table.pools * shares.max(axis=0))
    users = np.minimum(np.where(work_s > 0, table.replicas, 0.0).sum(axis=0), table.pools)
    yield Shared(work_s, devices(reserved), users)


def _servers(table: CompositionTable, per_stage: Sequence[StageCost], service_s: Array, hop_s: float) -> Array:
    """Return the servers of each group. A pool of workers is divided by work, up to the most workers of each group."""
    servers = _own_servers(table, per_stage, service_s, hop_s)
    if np.isinf(table.pools).all():
        return servers
    all_s = service_s.sum(axis=0)
    parts = np.divide(service_s, all_s, out=np.ones_like(service_s), where=all_s > 0)
    shared: Array = np.where(table.is_group & (parts > 0), np.minimum(servers, parts * table.pools), servers)
    return shared


def _own_servers(table: CompositionTable, per_stage: Sequence[StageCost], service_s: Array, hop_s: float) -> Array:
    if all(cost.at_once == 1 for cost in per_stage):
        return table.replicas
    held_s = table.per_group([cost.held_s for cost in per_stage]) + hop_s * table.is_group
    slowest_s = table.most_in_group([cost.service_s / cost.at_once for cost in per_stage])
    occupied_s = np.maximum(held_s, slowest_s)
    at_once = np.divide(service_s, occupied_s, out=np.ones_like(service_s), where=occupied_s > 0)
    servers: Array = table.replicas * at_once
    return servers


def _at_rate(table: CompositionTable, load: Load, capacity: Array, conditions: Conditions) -> dict[str, Array]:
    """Return the columns that depend on the input rate."""
    rate_per_s = conditions.input_rate_per_s
    if rate_per_s is None:
        unknown = np.full(len(table), np.nan)
        names = ("latency_s", "p50_s", "p95_s", "p99_s", "utilization", "cpu_cores")
        return dict.fromkeys(names, unknown) | {"base_latency_s": load.service_s.sum(axis=0)}
    items = conditions.bundle_items
    latency = latency_at(table, load, rate_per_s / items, conditions.arrival_cv / sqrt(items))
    fills_s, fills_s2 = filling_wait(items, rate_per_s)
    mean_s, variance_s2 = latency.mean_s + fills_s, latency.variance_s2 + fills_s2
    if conditions.most_items > items:
        group_rates, shared_rates = _task_rates(table, load)
        carried = items * np.vstack([group_rates, *shared_rates]).min(axis=0)
        grown_s = latency_while_growing(table, (items, carried), (conditions.most_items, capacity), rate_per_s)
        mean_s = np.where(rate_per_s < carried, mean_s, grown_s)
        variance_s2 = np.where(rate_per_s < carried, variance_s2, 0.0)
    latencies = {"latency_s": mean_s} | {f"{name}_s": value for name, value in percentiles(mean_s, variance_s2).items()}
    return {name: np.where(rate_per_s < capacity, value, np.inf) for name, value in latencies.items()} | {
        "base_latency_s": latency.base_s,
        "utilization": rate_per_s / capacity,
        "cpu_cores": np.minimum(rate_per_s, capacity) * (load.shared[0].work_s.sum(axis=0) / items),
    }
