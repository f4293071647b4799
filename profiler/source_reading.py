"""Measurements of the source: hops, items requested, and for how long items waited or did not come out."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from statistics import median

from profiler.snapshot import Demand
from profiler.stats import Samples, slope_per_s

MOST_GONE = 8
"""Machines without a worker that are remembered: one may come back."""


class Hops:
    """The newest of each machine. Their median counts: a mean would carry every pause of the garbage collector."""

    def __init__(self, newest: int) -> None:
        self._newest = newest
        self._by_node: dict[str, deque[float]] = {}

    def add(self, hop_s: float, node: str) -> None:
        """From a task's sending to a worker on ``node`` to its return, less its work."""
        found = self._by_node.get(node)
        if found is None:
            found = self._by_node[node] = deque(maxlen=self._newest)
        found.append(hop_s)

    def price_s(self, workers: Mapping[str, int]) -> float | None:
        """Return the hop of the average worker, with so many ``workers`` on each machine; None if nothing was measured.

        Not of the average task: near workers are done sooner and have more of them, so that the far ones would count
        for nothing, and a group of both do what only near ones can.
        """
        for node in [node for node in self._by_node if node not in workers][:-MOST_GONE]:
            del self._by_node[node]
        seen = {node: count for node, count in workers.items() if node in self._by_node}
        if total := sum(seen.values()):
            return sum(median(self._by_node[node]) * count for node, count in seen.items()) / total
        everywhere = [*chain.from_iterable(self._by_node.values())]
        return median(everywhere) if everywhere else None


class DemandReading:
    """Readings of the demand on the source, and of the time since when items have been there without a break."""

    def __init__(self, capacity: int, growth_span_s: float) -> None:
        """Start a reading. ``growth_span_s``: minimum time between the first and the last count for a rate."""
        self._counts = Samples(capacity)
        self._span_s = growth_span_s
        self._latest: Demand | None = None
        self._free_s = self._empty_s = 0.0
        """Times at which nothing waited last, and at which there were no items at all."""

    def record(self, at_s: float, demand: Demand) -> None:
        self._latest = demand
        self._counts.add(at_s, demand.offered, demand.admitted, demand.missed)

    def waits(self, at_s: float, *, few: bool, in_flight: int = 1) -> None:
        """Record whether only a few items wait at this moment, and how many are being processed."""
        if few:
            self._free_s = at_s
            if not in_flight and not (self._latest and self._latest.behind):
                self._empty_s = at_s

    @property
    def first_s(self) -> float | None:
        """The time of the first record, if any."""
        return self._counts.at(0) if self._counts else None

    def demand(
        self, start_s: float, now_s: float, delivered_per_s: float | None, last_s: float | None
    ) -> Demand | None:
        """Return the demand and how fast its counts rose since ``start_s``; None if nothing counts it.

        ``last_s``: time of the last delivery; None if there was none.
        """
        if self._latest is None:
            return None
        stalled_s = 0.0 if last_s is None else now_s - max(self._empty_s, last_s)
        demand = replace(
            self._latest, held_s=now_s - self._free_s, delivered_per_s=delivered_per_s, stalled_s=stalled_s
        )
        first = self._counts.first_at_or_after(start_s)
        times, span_s = self._counts.times(first), self._span_s
        offered, admitted, missed = (
            slope_per_s(times, counts, min_span_s=span_s)
            for counts in (self._counts.xs(first), self._counts.ys(first), self._counts.zs(first))
        )
        if offered is None or admitted is None or missed is None:
            return demand
        growth = offered - admitted - missed
        return replace(demand, growth_per_s=growth, offered_per_s=offered, admitted_per_s=admitted, missed_per_s=missed)
