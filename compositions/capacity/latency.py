"""Latency of many compositions at one input rate: service, sharing of cores, queues, and the order of delivery.

The unit that queues is a task: an item, or a bundle of items, which moves as one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from compositions.capacity.costs import (
    Array,
    departure_scv,
    regular_arrivals,
    reorder_wait,
    share_that_waits,
    wait_if_any,
)
from compositions.capacity.table import CompositionTable

_ALMOST_IDLE = 1e-12


@dataclass(frozen=True, slots=True)
class Load:
    """The cost of a task in every group of every composition, hops included: shape (groups, compositions)."""

    service_s: Array
    cpu_s: Array
    variance_s2: Array
    """Of the service time; stages vary independently."""
    servers: Array
    """Tasks that the group's workers serve at a time: its replicas, or more where calls wait. Not always whole."""


@dataclass(frozen=True, slots=True)
class Latency:
    """Per composition; rows whose capacity is below the rate hold no meaning but for ``base_s``."""

    base_s: Array
    mean_s: Array
    variance_s2: Array


def latency_at(table: CompositionTable, load: Load, cores: float, rate_per_s: float, arrival_cv: float) -> Latency:
    """Sums the ways a task spends time: its service, waits for cores, waits for workers, wait for earlier ones."""
    alone, cpu = load.service_s.sum(axis=0), load.cpu_s.sum(axis=0)
    arrival_scv = np.full(len(table), arrival_cv**2)
    sharing = _core_sharing(table, load, cores, rate_per_s, arrival_scv)
    shared = (sharing - 1.0) * cpu
    mean, variance, overtaking = alone + shared, shared**2, np.zeros(len(table))
    for group in range(len(load.servers)):
        replicas, service = load.servers[group], load.service_s[group]
        stretched = service + (sharing - 1.0) * load.cpu_s[group]
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
    # With all workers busy each still gets its part of the cores.
    most = np.maximum(1.0, table.workers / cores)
    return Latency(alone + (np.minimum(sharing, most) - 1.0) * cpu, mean, variance)


def _core_sharing(table: CompositionTable, load: Load, cores: float, rate_per_s: float, arrival_scv: Array) -> Array:
    """Return how many times longer CPU work takes because workers share cores; infinite when they are used up.

    The cores are a queue of their own whose customers are whole items. It cannot form with no more workers than cores,
    and forms fully with many more. Regular arrivals help less here: items at all their stages compete.
    """
    cpu = load.cpu_s.sum(axis=0)
    busy = np.maximum(rate_per_s * cpu / cores, _ALMOST_IDLE)
    servers = np.full(len(table), cores)
    item_scv = _scv(load.variance_s2.sum(axis=0), load.service_s.sum(axis=0))
    queued = wait_if_any(busy, servers, np.ones(len(table)), arrival_scv, item_scv)
    contention = np.maximum(0.0, 1.0 - cores / table.workers)
    return np.where(busy < 1.0, 1.0 + contention * queued * share_that_waits(busy, servers), np.inf)


def _utilization(alone: Array, shared: Array) -> Array:
    """Return the use of a group whose work takes longer on shared cores: the odds of being busy grow, never to
    certainty.

    A group is below 1 while ``alone`` is, so that latency stays finite up to the capacity and nowhere beyond.
    """
    return np.maximum(shared / (1.0 + shared - alone), _ALMOST_IDLE)


def _scv(variance: Array, mean: Array) -> Array:
    return np.divide(variance, mean**2, out=np.zeros_like(mean), where=mean > 0)
