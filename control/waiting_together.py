"""How many items of an app wait together, so that they tell as much as one.

Latencies of neighbours are alike for two reasons. Who queues waits for the same work as those next to it: in heavy
traffic the correlations of the waits of a queue sum up to about ``2 ρ (c_a² + c_s²) / (1 - ρ)²`` items (Whitt, Planning
queueing simulations, Management Science 1989; ρ the utilization, c the coefficients of variation of the times between
arrivals and of service), as far as items wait at all. And results leave in order: one that takes long holds back what
came after it, as many as come within the time that counts as late.
"""

from __future__ import annotations

from math import sqrt

from compositions.capacity.costs import PACED_ARRIVAL_CV, occupied_s
from compositions.model import Composition
from profiler.service_time import stage_costs
from profiler.snapshot import Snapshot

MOST_TOGETHER = 100.0
"""However full a group is: one that is overloaded has all of its items late, and that is to show in some seconds."""
_FULL = 0.99
"""Utilization beyond which a queue has no end to be told."""


def items_together(snapshot: Snapshot, composition: Composition, wanted_s: float | None) -> float:
    """Of ``composition`` at the present rate, at least 1. ``wanted_s``: the time in which an item is wanted, None where
    items are not judged one by one."""
    rate_per_s = _rate(snapshot)
    if not rate_per_s:
        return 1.0
    costs = stage_costs(snapshot.stages, snapshot.cores)
    arrival_scv = 1.0 if snapshot.counted else PACED_ARRIVAL_CV**2
    most = 1.0
    for group in composition.groups:
        stages = [costs[name] for name in group.stages if name in costs]
        service_s = sum(stage.service_s for stage in stages) + snapshot.hop_s
        if len(stages) < len(group.stages) or not service_s:
            continue
        scv = sum((stage.cv * stage.service_s) ** 2 for stage in stages) / service_s**2
        busy = min(_FULL, rate_per_s * (occupied_s(stages) + snapshot.hop_s) / group.replicas)
        # The power is the share that waits at all (Sakasegawa's approximation).
        queued = busy ** (sqrt(2.0 * (group.replicas + 1.0)) - 1.0) * 2 * busy * (arrival_scv + scv) / (1 - busy) ** 2
        held_back = rate_per_s * wanted_s if wanted_s is not None and group.replicas > 1 else 0.0
        most = max(most, 1 + queued, 1 + held_back)
    return min(MOST_TOGETHER, most)


def _rate(snapshot: Snapshot) -> float | None:
    return snapshot.input_rate_per_s if snapshot.outlook is None else snapshot.outlook.present_per_s
