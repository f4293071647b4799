"""Where a demo goes: rates and an objective that follow from what the app's compositions can do on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from service.bodies.compositions import Choice
from service.bodies.status import Status

HIGH_SHARE, OVERLOAD = 0.85, 1.2
"""High input, as a share of the best composition's capacity and of the first one's: whichever is less."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Input rates in items/s, and the latency objective in milliseconds."""

    low_per_s: float
    high_per_s: float
    target_ms: float


def plan_for(status: Status, choices: Sequence[Choice]) -> Plan:
    """Rates and SLO from a profile at rest.

    ``x1`` is the most that the active composition could do, ``x`` the most that any is predicted to do. Low input is
    half of x1. High input lies above x1, where latency grows without bound if nothing changes, but leaves the best
    composition some room; where no composition can do more than the active one, it lies below x1.
    """
    assert status.composition is not None, "an app with a profile has an active composition"
    times_ms = {stage.name: stage.service_time_ms or 0.0 for stage in status.stages}
    groups = status.composition.groups
    x1 = min(1e3 * group.replicas / sum(times_ms[name] for name in group.stages) for group in groups)
    x = max([choice.predicted_throughput_per_s or x1 for choice in choices])
    resting_ms = max(status.latency_ms.p50 or 0.0, sum(times_ms.values()))
    return Plan(low_per_s=0.5 * x1, high_per_s=min(OVERLOAD * x1, HIGH_SHARE * x), target_ms=2.5 * resting_ms)
