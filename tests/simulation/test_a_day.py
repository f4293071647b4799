"""The core (dispatcher, manager, monitor, loop) holds no more the longer a stream runs, in virtual time."""

import gc
import sys
import types
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from compositions.enumeration import generate
from compositions.model import Stage
from datapipe.sources.rate_spec import RateSpec, from_spec
from lab.simulation.machine import Machine
from lab.simulation.scenario import Happening, Scenario, SimulatedStage
from lab.simulation.simulation import SimulatedRun
from profiler.slo import parse_slo
from runtime.dispatch.outcomes import Delivered, Shed

QUARTER_S = 900.0
SHARED = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.CodeType, types.MethodType)


class Counting(SimulatedRun):
    """A simulated run without a trace: it counts all items and keeps nothing of the core."""

    items = 0

    def _take(self, item: Delivered | Shed) -> None:
        self.items += item.count

    def _note(self) -> None: ...


def scenario() -> Scenario:
    """An hour of waves in which a worker is lost every ten minutes and the objective changes."""
    stages = tuple(SimulatedStage(name, ms / 1000, cv=0.3) for name, ms in (("f1", 20), ("f2", 60)))
    return Scenario(
        stages=stages,
        compositions=tuple(generate([Stage(each.name) for each in stages], max_workers=4, replicas=(1, 2))),
        machine=Machine(cores=4),
        rate=from_spec(RateSpec(pattern="wave", period_s=1800, min_per_s=1, max_per_s=12)),
        slo=parse_slo("throughput=input_rate"),
        duration_s=4 * QUARTER_S,
        happenings=(
            *(Happening(600.0 * number, "lose_worker") for number in range(1, 6)),
            Happening(1.5 * QUARTER_S, "slo", slo=parse_slo("latency=400ms")),
        ),
    )


def held(roots: Iterable[Any]) -> Counter[str]:
    """Return the bytes reachable from these objects by type, without objects that all runs share."""
    seen: set[int] = set()
    left, by_type = list(roots), Counter[str]()
    while left:
        each = left.pop()
        if id(each) in seen or isinstance(each, SHARED):
            continue
        seen.add(id(each))
        by_type[type(each).__name__] += sys.getsizeof(each)
        left += gc.get_referents(each)
    return by_type


@pytest.mark.long
def test_three_quarters_of_an_hour_hold_no_more_than_a_quarter() -> None:
    """But for samples, which fill up within hours: they are bounded rows in arrays."""
    run, sizes = Counting(scenario()), []
    loop = run.loop
    core = (loop.engine._dispatcher, loop.manager, loop.monitor, loop.handovers, loop.journal, run._bundling)
    for quarter in (1, 2, 3):
        run.advance(quarter * QUARTER_S)
        gc.collect()
        by_type = held(core)
        sizes.append(by_type.total() - by_type["array"])
    assert run.items > 10_000
    assert max(sizes[1:]) < 1.1 * sizes[0]
