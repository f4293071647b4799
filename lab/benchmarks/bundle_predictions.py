"""Compare predictions with simulated streams whose items travel in bundles, over seeded random settings.

The monitor profiles the stages in one composition, in bundles of the same size and at another rate. The prediction for
another composition is compared with a run of it: saturated for the throughput, at a lower rate for the latency.

By default a bundle is closed by its last item (a source that lingers). With ``--gathered`` it takes the items that came
while others waited, as from a source that does not linger; the bundle size is then the maximum.

With ``--ray`` the same is done in real time with settings that this machine can have.

    python -m lab.benchmarks.bundle_predictions [--settings 40] [--seed 1] [--gathered | --ray]
"""

from __future__ import annotations

import math
import random
import statistics
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from compositions.model import Composition, all_sequential
from control.decisions import Mode
from lab.benchmarks.bundle_predictions_ray import LIMIT as RAY_LIMIT
from lab.benchmarks.bundle_predictions_ray import Outcome, drawn_groups, on_ray, predicted
from lab.benchmarks.harness import Rows, Seed, main, progress
from lab.simulation.machine import Machine
from lab.simulation.run import loop_on, pool_of
from lab.simulation.scenario import Scenario, SimulatedStage
from profiler.snapshot import Demand, Snapshot
from runtime.dispatch.outcomes import Delivered, Shed
from service.runner.loop import ControlLoop

LIMIT = 0.1
LEAST_TASKS, LEAST_ITEMS = 400, 4000
LOOK_S = 0.25


@dataclass(frozen=True, slots=True)
class Setting:
    """An app, a machine, a bundle size, and the composition that is predicted."""

    stages: tuple[SimulatedStage, ...]
    machine: Machine
    composition: Composition
    items: int
    load: float
    """Share of the throughput of a saturated stream."""
    seed: int
    gathered: bool = False

    @property
    def cores(self) -> int:
        return self.machine.cores

    @property
    def tasks(self) -> int:
        return max(LEAST_TASKS, LEAST_ITEMS // self.items)


def drawn(seed: int) -> Setting:
    """Draw 1 to 4 groups, stages of 1 us to 5 ms, hops of 0.1 to 0.5 ms (half of it CPU), and bundles of 1 to 512."""
    draw = random.Random(seed)
    stages = tuple(
        SimulatedStage(name, math.exp(draw.uniform(math.log(1e-6), math.log(5e-3))), draw.uniform(0, 0.5))
        for name in "abcd"
    )
    groups = drawn_groups(draw, most_replicas=3)
    hop_s = draw.uniform(1e-4, 5e-4)
    machine = Machine(draw.choice((2, 4, 8)), hop_s=hop_s / 2, hop_cpu_s=hop_s / 2)
    items = round(math.exp(draw.uniform(0, math.log(512))))
    return Setting(stages, machine, Composition("asked", groups), items, draw.uniform(0.3, 0.9), seed)


def measured(setting: Setting) -> Outcome:
    """Return what was predicted, and what came out."""
    throughput_per_s = _Stream(setting, setting.composition).saturated()
    rate_per_s = setting.load * throughput_per_s
    prediction = predicted(setting.composition, _profile(setting), rate_per_s)
    stream = _Stream(setting, setting.composition)
    stream.paced(rate_per_s)
    return Outcome(setting, prediction, throughput_per_s, stream.latency_s)


def _profile(setting: Setting) -> Snapshot:
    """Profile all stages in sequence at half their capacity."""
    plain = all_sequential(Scenario(setting.stages, ()).app_stages)
    slowest_s = max(stage.service_s for stage in setting.stages)
    hop_s = setting.machine.hop_s + setting.machine.hop_cpu_s
    return _Stream(setting, plain).paced(0.5 * setting.items / (setting.items * slowest_s + hop_s))


class _Stream:
    """One composition, by itself, in virtual time; the first tenth of the bundles is not counted."""

    def __init__(self, setting: Setting, composition: Composition) -> None:
        scenario = Scenario(
            setting.stages,
            (composition,),
            first=composition,
            machine=setting.machine,
            mode=Mode.OBSERVE,
            strategy="static",
            seed=setting.seed,
        )
        self._setting = setting
        self._out: list[Delivered] = []
        self._delivered = 0
        self._loop: ControlLoop = loop_on(pool_of(scenario), scenario, self._take)
        self._engine = self._loop.engine
        self._engine.start()
        while len(self._engine.view().workers) < composition.workers:
            self._loop.step(self._engine.now_s + LOOK_S)

    def saturated(self) -> float:
        """Return items per second if there always are more."""
        admitted = 0
        while len(self._out) < self._setting.tasks:
            while self._engine.has_room and admitted < self._setting.tasks:
                self._admit((self._engine.now_s,) * self._setting.items)
                admitted += 1
            self._loop.step(math.inf)
        counted = self._counted
        return sum(each.count for each in counted[1:]) / (counted[-1].at_s - counted[0].at_s)

    def paced(self, rate_per_s: float) -> Snapshot:
        """Let items come evenly. Return what the monitor has seen at the end."""
        loop, engine, setting = self._loop, self._engine, self._setting
        loop.monitor.set_offered_rate(engine.now_s, rate_per_s)
        items = LEAST_ITEMS if setting.gathered else setting.tasks * setting.items
        due_s = [engine.now_s + number / rate_per_s for number in range(1, items + 1)]
        first, least = 0, 1 if setting.gathered else setting.items
        while self._delivered < items:
            came = bisect_right(due_s, engine.now_s, first, min(items, first + setting.items))
            takes = not setting.gathered or not engine.waits
            if takes and came - first >= least:
                self._admit(tuple(due_s[first:came]))
                first = came
            else:
                loop.step(due_s[first + least - 1] if takes and first < items else math.inf)
        limit = setting.items if setting.gathered else 1
        loop.monitor.record_demand(engine.now_s, Demand(items, items, 0, 0.0, bundle_limit=limit))
        loop.tick(engine.now_s)
        assert loop.snapshot is not None, "it was looked just now"
        return loop.snapshot

    @property
    def latency_s(self) -> float:
        return statistics.fmean(each.at_s - arrived_s for each in self._counted for arrived_s in each.arrived_s)

    @property
    def _counted(self) -> list[Delivered]:
        return self._out[len(self._out) // 10 :]

    def _admit(self, arrived_s: tuple[float, ...]) -> None:
        self._loop.monitor.record_arrivals(arrived_s)
        self._engine.admit(None, arrived_s)

    def _take(self, item: Delivered | Shed) -> None:
        assert isinstance(item, Delivered), "nothing is shed"
        self._out.append(item)
        self._delivered += item.count


def measure(
    settings: Annotated[int, "number of settings"] = 40,
    seed: Seed = 1,
    gathered: Annotated[bool, "as from a source that does not linger"] = False,
    ray: Annotated[bool, "settings that this machine can have, on Ray"] = False,
) -> Iterator[Rows]:
    seeds = range(seed, seed + settings)
    found = on_ray(seeds) if ray else (measured(replace(drawn(each), gathered=gathered)) for each in seeds)
    outcomes = []
    for outcome in found:
        outcomes.append(outcome)
        progress(str(outcome.row))
    where, limit = ("on Ray", RAY_LIMIT) if ray else ("in virtual time", LIMIT)
    yield Rows(f"predictions {where}", [each.row for each in outcomes], checks(outcomes, limit))


def checks(outcomes: Sequence[Outcome], limit: float) -> dict[str, bool]:
    """Compare the median errors with the limit, and count what was wrongly predicted to be overloaded."""
    throughput = statistics.median(each.throughput_error for each in outcomes)
    latency = statistics.median(each.latency_error for each in outcomes)
    overloaded = sum(each.told.overloaded for each in outcomes)
    return {
        f"median error of throughput {throughput:.1%} ≤ {limit:.0%}": throughput <= limit,
        f"median error of latency {latency:.1%} ≤ {limit:.0%} ({overloaded} predicted as overloaded, none is)": latency
        <= limit,
    }


if __name__ == "__main__":
    main(measure)
