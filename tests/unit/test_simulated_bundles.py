"""Simulated machines and pools by hand: bundles, and calls that wait."""

from dataclasses import replace

import pytest

from apps.contract import App
from apps.rates import Fixed
from compositions.batching import Batching
from compositions.capacity.costs import Conditions, StageCost
from compositions.capacity.predict import predict
from compositions.model import Composition, Group, Stage
from control.settings import Measuring, Settings
from lab.simulation.machine import Cost, Machine
from lab.simulation.pool import SimulatedPool
from lab.simulation.scenario import Scenario, SimulatedStage
from lab.simulation.simulation import simulate
from lab.simulation.trace import Trace
from profiler.snapshot import LatencyFrom, StageTiming
from runtime.dispatch.dispatcher import Dispatcher
from runtime.dispatch.outcomes import Delivered, TaskTimed
from runtime.engine import Engine
from runtime.pools.local import PickleCodec

CHAIN = Composition("chain", (Group(("a",)), Group(("b",))))
DUE = Settings(measuring=Measuring(latency_from=LatencyFrom.DUE))
CALM = Scenario(
    stages=(SimulatedStage("a", 200e-6), SimulatedStage("b", 200e-6)), compositions=(CHAIN,), first=CHAIN,
    rate=Fixed(100.0), machine=Machine(cores=4, hop_s=200e-6, hop_cpu_s=400e-6), duration_s=2.5,
)  # fmt: skip
RATE_PER_S, SECONDS, WAIT_S = 300, 4, 0.030
ONE = Composition("one", (Group(("ask",)),))


def late(trace: Trace) -> list[float]:
    return [item.latency_s for item in trace.delivered if item.at_s > 2.0]


def test_items_that_linger_leave_when_the_time_is_over_or_the_bundle_is_full() -> None:
    calm = replace(CALM, settings=DUE)
    aged = simulate(replace(calm, batching=Batching(64, linger_ms=50.0)))
    assert max(late(aged)) == pytest.approx(0.05, abs=0.005)
    full = simulate(replace(calm, batching=Batching(3, linger_ms=50.0)))
    assert max(late(full)) == pytest.approx(0.02, abs=0.005)  # the first waits for two more, 10 ms apart
    assert full.in_order


# A stage of 30 ms waiting, 300 items/s, in virtual time: one worker does it if its calls overlap.


class Asks(App):
    name = "asks"

    def __init__(self, concurrency: int) -> None:
        super().__init__()
        self.stages = (Stage("ask", concurrency=concurrency),)

    async def ask(self, value: int) -> int:
        return value


def run(concurrency: int, bundle: int = 1) -> tuple[list[Delivered], list[StageTiming]]:
    """What was delivered while items came, and the timings of all tasks."""
    pool = SimulatedPool(lambda *_: Cost(0.0001, WAIT_S), Machine(start_s=0.0), lambda: Asks(concurrency))
    engine, codec = Engine(Dispatcher(Asks(concurrency).stages, ONE), pool), PickleCodec()
    engine.start()
    out: list[Delivered] = []
    timings: list[StageTiming] = []
    for first in range(0, RATE_PER_S * SECONDS, bundle):
        while engine.now_s < first / RATE_PER_S:
            for each in engine.advance(first / RATE_PER_S):
                if isinstance(each, Delivered):
                    out.append(each)
                elif isinstance(each, TaskTimed):
                    timings += each.timings
        if engine.has_room:
            engine.admit(codec.encode([0] * bundle), (engine.now_s,) * bundle)
    engine.close()
    return out, timings


@pytest.mark.parametrize("bundle", [1, 4])
def test_one_worker_does_it_and_the_capacity_model_says_so_from_the_timings_of_the_run(bundle: int) -> None:
    out, timings = run(16, bundle)
    assert sum(each.count for each in out) >= RATE_PER_S * (SECONDS - 0.1)
    took_s = [each.at_s - each.arrived_s[0] for each in out]
    assert max(took_s) < 2 * WAIT_S
    cost = StageCost(timings[-1].wall_s / bundle, timings[-1].cpu_s / bundle, at_once=16)
    found = predict(ONE, {"ask": cost}, Conditions(2, 0.0001, RATE_PER_S))
    assert found.throughput_per_s > RATE_PER_S
    assert bundle > 1 or found.latency_s == pytest.approx(took_s[-1], rel=0.1)
