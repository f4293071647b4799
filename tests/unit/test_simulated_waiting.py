"""A stage of 30 ms waiting, 300 items/s, in virtual time: one worker does it if its calls overlap."""

from __future__ import annotations

import pytest

from apps.contract import App
from compositions.capacity.costs import Conditions, StageCost
from compositions.capacity.predict import predict
from compositions.model import Composition, Group, Stage
from lab.simulation.machine import Cost, Machine
from lab.simulation.pool import SimulatedPool
from profiler.snapshot import StageTiming
from runtime.dispatch.dispatcher import Dispatcher
from runtime.dispatch.outcomes import Delivered, TaskTimed
from runtime.engine import Engine
from runtime.pools.local import PickleCodec

RATE_PER_S, SECONDS, WAIT_S = 300, 4, 0.030
ONE = Composition("one", (Group(("ask",)),))


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
def test_one_worker_does_it(bundle: int) -> None:
    out, _ = run(16, bundle)
    assert sum(each.count for each in out) >= RATE_PER_S * (SECONDS - 0.1)
    assert max(each.at_s - each.arrived_s[0] for each in out) < 2 * WAIT_S


def test_without_overlap_it_does_a_tenth() -> None:
    out, _ = run(1)
    assert sum(each.count for each in out) == pytest.approx(SECONDS / WAIT_S, abs=5)


def test_the_capacity_model_says_so_from_the_timings_of_the_run() -> None:
    out, timings = run(16)
    cost = StageCost(timings[-1].wall_s, timings[-1].cpu_s, at_once=16)
    found = predict(ONE, {"ask": cost}, Conditions(2, 0.0001, RATE_PER_S))
    assert found.throughput_per_s > RATE_PER_S
    assert found.latency_s == pytest.approx(out[-1].at_s - out[-1].arrived_s[0], rel=0.1)
