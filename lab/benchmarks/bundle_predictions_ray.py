"""Settings of :mod:`lab.benchmarks.bundle_predictions` that a real machine can have, on Ray; and outcomes of both.

One stream, whose items say what they cost, goes from setting to setting. Each is profiled with all stages in sequence,
at half of what that can do; then the composition in question runs saturated for its throughput, and below that for its
latency.
"""

from __future__ import annotations

import math
import os
import random
import statistics
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import cycle
from typing import Any, NamedTuple

import psutil

from compositions.capacity.prediction import Prediction
from compositions.model import Composition, Group, Pattern, all_sequential
from control.expect import Unmeasured, expect
from lab.benchmarks.harness import cores, ray_if
from lab.benchmarks.workloads import Price, Priced
from profiler.monitor import Monitor, MonitorSettings, Running
from profiler.snapshot import InputNow, Snapshot
from runtime.dispatch.dispatcher import Dispatcher
from runtime.dispatch.outcomes import Delivered, TaskTimed
from runtime.dispatch.settings import DispatcherSettings
from runtime.engine import Engine
from runtime.pools.port import Codec, WorkerPool
from runtime.pools.ray.pool import RayPool

NAMES = "abcd"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A prediction and what was measured, in a simulated or a real setting."""

    setting: Any
    told: Prediction
    throughput_per_s: float
    latency_s: float
    others_cores: float = 0.0
    """Cores that other programs used meanwhile; the model does not see them."""

    @property
    def throughput_error(self) -> float:
        return abs(self.told.throughput_per_s / self.throughput_per_s - 1)

    @property
    def latency_error(self) -> float:
        return abs((self.told.latency_s or 0.0) / self.latency_s - 1)

    @property
    def row(self) -> dict[str, Any]:
        setting, groups = self.setting, self.setting.composition.groups
        return {
            "groups": "-".join(f"{'+'.join(group.stages)}*{group.replicas}" for group in groups),
            "items": setting.items, "cores": setting.cores, "load": setting.load,
            "items/s": self.throughput_per_s, "error": self.throughput_error,
            "ms": self.latency_s * 1e3, "error of ms": self.latency_error, "others' cores": self.others_cores,
        }  # fmt: skip


def predicted(composition: Composition, snapshot: Snapshot, rate_per_s: float) -> Prediction:
    """Predict a composition at a rate, with what the monitor saw at another."""
    told = expect([composition], replace(snapshot, input_rate_per_s=rate_per_s, input=InputNow()))
    assert not isinstance(told, Unmeasured), told
    return told[0]


def drawn_groups(draw: random.Random, most_replicas: int) -> tuple[Group, ...]:
    """Draw 1 to 4 groups, half of them with one replica."""
    cuts = sorted(draw.sample(range(1, 4), draw.randint(0, 3)))
    groups = []
    for begin, end in zip([0, *cuts], [*cuts, 4], strict=True):
        replicas = draw.choice((1, 1, 2, most_replicas))
        groups.append(Group(tuple(NAMES[begin:end]), Pattern.PAR if replicas > 1 else Pattern.SEQ, replicas))
    return tuple(groups)


LIMIT = 0.2
BUNDLE_S = 0.1
"""The work in a bundle, at most: a run is to have many."""
LEAST_BUNDLES = 40
HOP_S = 4e-4
"""About; what it is gets measured."""
PLAIN = all_sequential(Priced.stages)
VARIANTS = 512
"""Items that differ."""


class Lengths(NamedTuple):
    """Seconds of the three runs of a setting; a run lasts longer if its bundles need more."""

    profiled_s: float = 2.0
    saturated_s: float = 2.5
    paced_s: float = 3.5


@dataclass(frozen=True, slots=True)
class RealSetting:
    """The mean cost of each stage, its variation, and the composition that is predicted."""

    costs_s: tuple[float, ...]
    cvs: tuple[float, ...]
    waits: bool
    composition: Composition
    items: int
    load: float
    """Share of the throughput of a saturated stream."""
    seed: int

    @property
    def cores(self) -> int:
        return cores()

    @property
    def prices(self) -> list[Price]:
        chance = random.Random(self.seed)
        return [Price(tuple(map(self._cost, range(4), [chance] * 4)), self.waits) for _ in range(VARIANTS)]

    def _cost(self, stage: int, chance: random.Random) -> float:
        mean, cv = self.costs_s[stage], self.cvs[stage]
        return chance.gammavariate(1 / cv**2, mean * cv**2)

    @property
    def profiled_per_s(self) -> float:
        """Return about half of what all stages in sequence can do."""
        stage_s = self.items * max(self.costs_s) + HOP_S
        cpu_s = len(NAMES) * HOP_S + (0.0 if self.waits else self.items * sum(self.costs_s))
        return 0.5 * self.items * min(1 / stage_s, cores() / cpu_s)


def drawn(seed: int) -> RealSetting:
    """1 to 4 groups of up to 2 replicas (3 where stages wait), stages of 30 us to 5 ms, bundles of 1 to 512."""
    draw = random.Random(seed)
    costs_s = tuple(math.exp(draw.uniform(math.log(3e-5), math.log(5e-3))) for _ in NAMES)
    cvs = tuple(draw.uniform(0.05, 0.5) for _ in NAMES)
    waits = draw.choice((True, False))
    groups = drawn_groups(draw, 3 if waits else 2)
    items = round(math.exp(draw.uniform(0, math.log(min(512, max(1.0, BUNDLE_S / sum(costs_s)))))))
    return RealSetting(costs_s, cvs, waits, Composition(f"asked {seed}", groups), items, draw.uniform(0.3, 0.9), seed)


@dataclass(slots=True)
class _Seen:
    """The results of one composition; the first fifth does not count."""

    monitor: Monitor
    out: list[Delivered] = field(default_factory=list)

    @property
    def counted(self) -> list[Delivered]:
        return self.out[len(self.out) // 5 :]

    @property
    def throughput_per_s(self) -> float:
        counted = self.counted
        return sum(each.count for each in counted[1:]) / (counted[-1].at_s - counted[0].at_s)

    @property
    def latency_s(self) -> float:
        return statistics.fmean(each.at_s - arrived_s for each in self.counted for arrived_s in each.arrived_s)


class Usage:
    """CPU time from now on: of these processes, and of the whole machine."""

    def __init__(self, pids: Iterable[int]) -> None:
        self._own = [psutil.Process(pid) for pid in pids]
        self._began = self._read()

    def others_cores(self) -> float:
        """Cores that were busy with anything else, on average."""
        (at_s, machine_s, own_s), (began_s, machine_before_s, own_before_s) = self._read(), self._began
        return (machine_s - machine_before_s - own_s + own_before_s) / (at_s - began_s)

    def _read(self) -> tuple[float, float, float]:
        machine, own = psutil.cpu_times(), [each.cpu_times() for each in self._own]
        busy_s = sum(machine) - machine.idle - getattr(machine, "iowait", 0.0) - getattr(machine, "guest", 0.0)
        return time.monotonic(), busy_s, sum(each.user + each.system for each in own)


def on_ray(seeds: Iterable[int]) -> Iterator[Outcome]:
    with ray_if(True):
        pool = RayPool(Priced, NAMES)
        stream = Stream(pool, pool.codec, Lengths())
        try:
            for seed in seeds:
                yield stream.measured(drawn(seed))
        finally:
            stream.close()


class Stream:
    """The one stream through all settings."""

    def __init__(self, pool: WorkerPool, codec: Codec, lengths: Lengths) -> None:
        self._codec, self._lengths = codec, lengths
        self._engine = Engine(Dispatcher(Priced.stages, PLAIN, DispatcherSettings(), codec.size_bytes), pool)
        self._engine.start()
        self._seen = self._anew()

    def measured(self, setting: RealSetting) -> Outcome:
        self._goes_to(PLAIN)
        self._paced(setting, setting.profiled_per_s, self._lengths.profiled_s)
        snapshot = self._snapshot()
        self._goes_to(setting.composition)
        usage = Usage(self._processes())
        self._saturated(setting)
        others_cores = usage.others_cores()
        throughput_per_s = self._seen.throughput_per_s
        rate_per_s = setting.load * throughput_per_s
        told = predicted(setting.composition, snapshot, rate_per_s)
        self._paced(setting, rate_per_s, self._lengths.paced_s)
        return Outcome(setting, told, throughput_per_s, self._seen.latency_s, others_cores)

    def close(self) -> None:
        self._engine.close()

    def _processes(self) -> list[int]:
        return [os.getpid(), *(worker.pid for worker in self._engine.view().workers)]

    def _anew(self) -> _Seen:
        return _Seen(Monitor(MonitorSettings(), NAMES, cores()))

    def _goes_to(self, composition: Composition) -> None:
        self._engine.switch(composition)
        while (view := self._engine.view()).switching or len(view.workers) < composition.workers:
            self._hear(self._engine.now_s + 0.1)

    def _saturated(self, setting: RealSetting) -> None:
        payloads, end_s = self._begins(setting), self._engine.now_s + self._lengths.saturated_s
        while self._engine.now_s < end_s or len(self._seen.out) < LEAST_BUNDLES:
            while self._engine.has_room:
                self._engine.admit(next(payloads), (self._engine.now_s,) * setting.items)
            self._hear(end_s)
        self._drain()

    def _paced(self, setting: RealSetting, rate_per_s: float, seconds: float) -> None:
        """Items come evenly; a bundle is closed by its last."""
        payloads, began_s = self._begins(setting), self._engine.now_s
        for number in range(max(LEAST_BUNDLES, int(rate_per_s * seconds / setting.items))):
            first = number * setting.items
            due_s = [began_s + (first + place) / rate_per_s for place in range(setting.items)]
            while self._engine.now_s < due_s[-1]:
                self._hear(due_s[-1])
            self._engine.admit(next(payloads), tuple(due_s))
        self._drain()

    def _begins(self, setting: RealSetting) -> Iterator[Any]:
        self._seen, prices = self._anew(), setting.prices
        bundles = [prices[at : at + setting.items] for at in range(0, VARIANTS - setting.items + 1, setting.items)]
        return cycle([self._codec.encode(bundle) for bundle in bundles])

    def _drain(self) -> None:
        while not self._engine.idle:
            self._hear(self._engine.now_s + 0.1)

    def _hear(self, until_s: float) -> None:
        for outcome in self._engine.advance(until_s):
            if isinstance(outcome, TaskTimed):
                self._seen.monitor.record_timings(outcome.at_s, outcome.timings, outcome.items)
                if outcome.hop_s is not None:
                    self._seen.monitor.record_hop(outcome.hop_s)
            elif isinstance(outcome, Delivered):
                self._seen.out.append(outcome)

    def _snapshot(self) -> Snapshot:
        view = self._engine.view()
        running = Running(view.composition.name, view.switching, 0.0, view.queued, view.in_flight, len(view.workers))
        return self._seen.monitor.snapshot(self._engine.now_s, running)
