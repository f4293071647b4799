"""Bundles in virtual time: the same source, dispatcher and loop, with more than one item a task."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest

from apps.rates import Fixed
from compositions.batching import Batching
from compositions.model import Composition, Group
from control.settings import Measuring, Settings
from lab.simulation.machine import Machine
from lab.simulation.scenario import Scenario, SimulatedStage
from lab.simulation.simulation import simulate
from lab.simulation.trace import Trace
from profiler.snapshot import LatencyFrom

CHAIN = Composition("chain", (Group(("a",)), Group(("b",))))
DUE = Settings(measuring=Measuring(latency_from=LatencyFrom.DUE))
CALM = Scenario(
    stages=(SimulatedStage("a", 200e-6), SimulatedStage("b", 200e-6)),
    compositions=(CHAIN,),
    first=CHAIN,
    rate=Fixed(100.0),
    machine=Machine(cores=4, hop_s=200e-6, hop_cpu_s=400e-6),
    duration_s=2.5,
)
DEAR = replace(CALM, rate=Fixed(900.0), machine=Machine(cores=4, hop_s=2e-3, hop_cpu_s=4e-3), duration_s=2.0)
"""A hop costs twenty times the work."""


def late(trace: Trace) -> list[float]:
    """Latencies of the items after the start."""
    return [item.latency_s for item in trace.delivered if item.at_s > 2.0]


@pytest.mark.parametrize("settings", [Settings(), DUE], ids=["read", "due"])
@pytest.mark.parametrize("arrivals", ["paced", "poisson"])
def test_items_that_travel_together_share_their_hops(settings: Settings, arrivals: Literal["paced", "poisson"]) -> None:
    alone = replace(DEAR, settings=settings, arrivals=arrivals)
    one, many = simulate(alone), simulate(replace(alone, batching=Batching(64)))
    assert one.in_order
    assert many.in_order
    assert len(many.delivered) > 2 * len(one.delivered)


@pytest.mark.parametrize("settings", [Settings(), DUE], ids=["read", "due"])
def test_at_a_low_load_nobody_waits_for_a_bundle_to_fill(settings: Settings) -> None:
    alone = replace(CALM, settings=settings)
    one, many = simulate(alone), simulate(replace(alone, batching=Batching(64)))
    assert late(many) == pytest.approx(late(one))


def test_items_that_linger_leave_when_the_time_is_over_or_the_bundle_is_full() -> None:
    calm = replace(CALM, settings=DUE)
    aged = simulate(replace(calm, batching=Batching(64, linger_ms=50.0)))
    assert max(late(aged)) == pytest.approx(0.05, abs=0.005)
    full = simulate(replace(calm, batching=Batching(3, linger_ms=50.0)))
    assert max(late(full)) == pytest.approx(0.02, abs=0.005)  # the first waits for two more, 10 ms apart
    assert full.in_order
