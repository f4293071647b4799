"""Compare predictions with simulated streams whose items travel in bundles, over seeded random settings.

The monitor profiles the stages in one composition, in bundles of the same size and at another rate. The prediction for
another composition is compared with a run of it: saturated for the throughput, at a lower rate for the latency.

By default a bundle is closed by its last item (a source that lingers). With ``--gathered`` it takes the items that came
while others waited, as from a source that does not linger; the bundle size is then the maximum.

With ``--ray`` the same is done in real time with settings that this machine can have.

    python -m lab.benchmarks.bundle_predictions [--settings 40] [--seed 1] [--gathered | --ray]
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from compositions.capacity.prediction import Prediction
from compositions.model import Composition, Group, Pattern, all_sequential
from control.decisions import Mode
from control.forecast.expect import Unmeasured, expect
from lab.benchmarks.bundle_predictions_ray import HEAD, Outcome, S, concluded, on_ray
from lab.benchmarks.bundle_predictions_ray import LIMIT as RAY_LIMIT
from lab.benchmarks.harness import metadata
from lab.simulation.machine import Machine
from lab.simulation.run import loop_on, pool_of
from lab.simulation.scenario import Scenario, SimulatedStage
from profiler.snapshot import Demand, InputNow, Snapshot
from runtime.dispatch.outcomes import Delivered, Shed
from service.runner.loop import ControlLoop

LIMIT = 0.1
LEAST_TASKS, LEAST_ITEMS = 400, 4000
LOOK_S = 0.25


@dataclass(frozen=True, slots=True)
class Setting:
    """An app, a machine, how many items travel together, and the composition that is predicted."""

    stages: tuple[SimulatedStage, ...]
    machine: Machine
    composition: Composition
    items: int
    load: float
    """Of the throughput of a saturated stream."""
    seed: int
    gathered: bool = False

    @property
    def cores(self) -> int:
        return self.machine.cores

    @property
    def tasks(self) -> int:
        return max(LEAST_TASKS, LEAST_ITEMS // self.items)


def drawn(seed: int) -> Setting:
    """1 to 4 groups, stages of 1 us to 5 ms, hops of 0.1 to 0.5 ms of which the half is CPU, bundles of 1 to 512."""
    draw = random.Random(seed)
    stages = tuple(
        SimulatedStage(name, math.exp(draw.uniform(math.log(1e-6), math.log(5e-3))), draw.uniform(0, 0.5))
        for name in "abcd"
    )
    cuts = sorted(draw.sample(range(1, 4), draw.randint(0, 3)))
    spans = zip([0, *cuts], [*cuts, 4], strict=True)
    groups = tuple(_group(tuple("abcd"[begin:end]), draw.choice((1, 1, 2, 3))) for begin, end in spans)
    hop_s = draw.uniform(1e-4, 5e-4)
    machine = Machine(draw.choice((2, 4, 8)), hop_s=hop_s / 2, hop_cpu_s=hop_s / 2)
    items = round(math.exp(draw.uniform(0, math.log(512))))
    return Setting(stages, machine, Composition("asked", groups), items, draw.uniform(0.3, 0.9), seed)


def _group(stages: tuple[str, ...], replicas: int) -> Group:
    return Group(stages, Pattern.PAR if replicas > 1 else Pattern.SEQ, replicas)


def measured(setting: Setting) -> Outcome[Setting]:
    """What was told before, and what came out."""
    throughput_per_s = _Stream(setting, setting.composition).saturated()
    rate_per_s = setting.load * throughput_per_s
    told = _told(setting, rate_per_s)
    stream = _Stream(setting, setting.composition)
    stream.paced(rate_per_s)
    return Outcome(setting, told, throughput_per_s, stream.latency_s)


def _told(setting: Setting, rate_per_s: float) -> Prediction:
    """By a profile of all stages in sequence at half their capacity."""
    plain = all_sequential(Scenario(setting.stages, ()).app_stages)
    slowest_s = max(stage.service_s for stage in setting.stages)
    hop_s = setting.machine.hop_s + setting.machine.hop_cpu_s
    snapshot = _Stream(setting, plain).paced(0.5 * setting.items / (setting.items * slowest_s + hop_s))
    predictions = expect([setting.composition], replace(snapshot, input_rate_per_s=rate_per_s, input=InputNow()))
    assert not isinstance(predictions, Unmeasured), predictions
    return predictions[0]


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
        """Items per second where there always are more."""
        admitted = 0
        while len(self._out) < self._setting.tasks:
            while self._engine.has_room and admitted < self._setting.tasks:
                self._admit((self._engine.now_s,) * self._setting.items)
                admitted += 1
            self._loop.step(math.inf)
        counted = self._counted
        return sum(each.count for each in counted[1:]) / (counted[-1].at_s - counted[0].at_s)

    def paced(self, rate_per_s: float) -> Snapshot:
        """Items come evenly. What the monitor has seen at the end."""
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


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--settings", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--gathered", action="store_true", help="of a source that does not linger")
    parser.add_argument("--ray", action="store_true", help="settings that this machine can have, on Ray")
    options = parser.parse_args(arguments)
    seeds = range(options.seed, options.seed + options.settings)
    where = "Ray" if options.ray else "virtual time"
    print(", ".join([*metadata().values(), where]) + "\n" + HEAD)
    if options.ray:
        return 0 if concluded(list(_shown(on_ray(seeds))), RAY_LIMIT) else 1
    simulated = (measured(replace(drawn(seed), gathered=options.gathered)) for seed in seeds)
    return 0 if concluded(list(_shown(simulated)), LIMIT) else 1


def _shown(outcomes: Iterable[Outcome[S]]) -> Iterator[Outcome[S]]:
    for outcome in outcomes:
        print(outcome.row, flush=True)
        yield outcome


if __name__ == "__main__":
    sys.exit(main())
