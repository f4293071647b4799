"""What a hop costs, by the machine of the worker: to another machine it takes longer."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from itertools import chain
from statistics import median

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
        """Of the average worker, with so many ``workers`` on each machine; None: nothing was measured.

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
