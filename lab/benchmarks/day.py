"""Measure the memory of the core (dispatcher, manager, monitor, loop), hour by hour, for a day in virtual time.

    python -m lab.benchmarks.day [--hours 24] [--json]

The load waves, a worker is lost every ten minutes, and the objective changes every two hours. The largest size in the
last third of the hours must not exceed that in the second third by more than 2 %. (Samples fill up within hours, and
are cut to half then.)
"""

from __future__ import annotations

import gc
import sys
import time
import types
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from compositions.enumeration import generate
from compositions.model import Stage
from datapipe.sources.rate_spec import RateSpec, from_spec
from lab.benchmarks.harness import Rows, main, progress
from lab.simulation.machine import Machine
from lab.simulation.scenario import Happening, Scenario, SimulatedStage
from lab.simulation.simulation import SimulatedRun
from profiler.slo import parse_slo
from runtime.dispatch.outcomes import Delivered, Shed

HOUR_S = 3600.0
MOST_GROWTH = 1.02
SLOS = ("throughput=input_rate", "latency=400ms")
_SHARED = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.CodeType, types.MethodType)


@dataclass(frozen=True)
class Hour:
    """The state after a number of hours: items so far, and the memory of the core."""

    hour: int
    items: int
    size_bytes: int
    seconds: float
    most: dict[str, int]
    """The types that use the most bytes."""


class Day(SimulatedRun):
    """A simulated run without a trace: it counts all items and keeps nothing of the core."""

    items = 0

    def _take(self, item: Delivered | Shed) -> None:
        self.items += item.count

    def _note(self) -> None: ...


def scenario(hours: int) -> Scenario:
    stages = tuple(SimulatedStage(name, ms / 1000, cv=0.3) for name, ms in (("f1", 20), ("f2", 60)))
    plain = [Stage(stage.name) for stage in stages]
    rate = from_spec(RateSpec(pattern="wave", period_s=1800, min_per_s=1, max_per_s=12))
    happenings = [
        *(Happening(600.0 * number, "lose_worker") for number in range(1, 6 * hours)),
        *(Happening(7200.0 * at, "slo", slo=parse_slo(SLOS[at % 2])) for at in range(1, hours // 2)),
    ]
    return Scenario(
        stages=stages,
        compositions=tuple(generate(plain, max_workers=4, replicas=(1, 2))),
        machine=Machine(cores=4),
        rate=rate,
        slo=parse_slo(SLOS[0]),
        duration_s=hours * HOUR_S,
        happenings=tuple(happenings),
    )


def held(roots: Iterable[Any]) -> tuple[int, Counter[str]]:
    """Return the number of bytes reachable from these objects, in total and by type, without objects that all runs
    share."""
    seen: set[int] = set()
    left, by_type = list(roots), Counter[str]()
    while left:
        each = left.pop()
        if id(each) in seen or isinstance(each, _SHARED):
            continue
        seen.add(id(each))
        by_type[type(each).__name__] += sys.getsizeof(each)
        left += gc.get_referents(each)
    return by_type.total(), by_type


def roots_of(run: SimulatedRun) -> tuple[Any, ...]:
    """Return the objects that make up the core."""
    loop = run.loop
    return loop.engine._dispatcher, loop.manager, loop.monitor, loop.handovers, loop.journal, run._bundling


def play(hours: int) -> Iterable[Hour]:
    run, began_s = Day(scenario(hours)), time.monotonic()
    for hour in range(1, hours + 1):
        run.advance(hour * HOUR_S)
        gc.collect()
        size_bytes, by_type = held(roots_of(run))
        yield Hour(hour, run.items, size_bytes, round(time.monotonic() - began_s, 1), dict(by_type.most_common(5)))


def growth_of(hours: Sequence[Hour]) -> float:
    """Return the largest size in the last third of the hours, divided by the largest in the third before."""
    sizes, third = [each.size_bytes for each in hours], max(1, len(hours) // 3)
    return max(sizes[-third:]) / max(sizes[-2 * third : -third])


def measure(hours: Annotated[int, "hours of virtual time"] = 24) -> Iterator[Rows]:
    seen: list[Hour] = []
    for each in play(hours):
        seen.append(each)
        progress(str(each))
    growth = growth_of(seen)
    checks = {f"last third relative to the second {growth:.3f} ≤ {MOST_GROWTH}": growth <= MOST_GROWTH}
    yield Rows("memory of the core by hour", [asdict(each) for each in seen], checks)


if __name__ == "__main__":
    main(measure)
