"""Record a scenario on Ray: when each item was due and delivered, what its stages took, and who used the cores."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from compositions.model import Composition, Loads, Stage, StageKind
from compositions.notation import parse
from lab.benchmarks.harness import cores
from lab.benchmarks.reality.drive import SETTINGS, Driven, World, drive
from lab.benchmarks.reality.scenarios import KILL, Floats, Prepared, Scenario, due_times
from runtime.dispatch.dispatcher import Dispatcher
from runtime.engine import Engine
from runtime.pools.ray.pool import RayPool

START_LIMIT_S = 120.0
SETTLE_S = 2.0
"""Between the last worker's start and the first item: Ray goes on for a while after a start."""
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Recording:
    """One run on Ray. Arrays have an entry an item; a stage that an item never passed has NaN."""

    scenario: str
    cores: int
    stages: tuple[str, ...]
    stateful: tuple[str, ...]
    rate_per_s: float
    due_s: Floats
    delivered_s: Floats
    """NaN: it failed."""
    cpu_s: Mapping[str, Floats]
    wall_s: Mapping[str, Floats]
    tasks: int
    hop_s: float
    """From send to return of a task, less its stages: mean of those whose worker was idle. It has waits for a core in
    it, which the plant makes as well: where cores are scarce, they count twice."""
    least_hop_s: float
    """The lower quartile, where no core was waited for."""
    start_s: float
    """From asking for a worker until it joined, while the stream ran where one was started then."""
    driver_cpu_s: float
    """CPU time of the dispatcher's process for each task."""
    worker_cpu_s: float
    """CPU time of a worker beside its stages for each task."""
    others: tuple[tuple[float, float], ...]
    """From a time on, so many cores were used by neither: starting workers, Ray, other programs, the hypervisor."""


class Watched(RayPool):
    """A pool that notes when workers are asked for."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.asked_s: list[float] = []

    def start(self, count: int, loads: Loads = ()) -> None:
        self.asked_s += [self.now_s()] * count
        super().start(count, loads)


class Usage:
    """Who used the cores, from second to second."""

    def __init__(self, engine: Engine, begin_s: float) -> None:
        self._engine, self._begin_s = engine, begin_s
        self._before_s = time.monotonic()
        self._machine_s, self._driver_s = machine_cpu_s(), time.process_time()
        self._workers_s: dict[int, float] = {}
        self.driver_s = self.workers_s = 0.0
        self.others: list[tuple[float, float]] = []

    def look(self) -> None:
        """Count once a second, and as soon as there is another worker."""
        changed = any(worker.pid not in self._workers_s for worker in self._engine.view().workers)
        if changed or time.monotonic() - self._before_s >= 1.0:
            self.count()

    def count(self) -> None:
        """Count what was used since the last time."""
        now_s = time.monotonic()
        workers = {worker.pid: process_cpu_s(worker.pid) for worker in self._engine.view().workers}
        # What a worker used before it was seen first was its start.
        workers_s = sum(max(0.0, used - self._workers_s.get(pid, used)) for pid, used in workers.items())
        machine_s, driver_s = machine_cpu_s(), time.process_time()
        others_s = machine_s - self._machine_s - workers_s - (driver_s - self._driver_s)
        if self._workers_s:
            share = others_s / (now_s - self._before_s)  # of a short time it is coarse: CPU time comes in ticks
            self.others.append((self._before_s - self._begin_s, min(max(0.0, share), float(cores()))))
            self.workers_s += workers_s
            self.driver_s += driver_s - self._driver_s
        self._before_s, self._machine_s, self._driver_s, self._workers_s = now_s, machine_s, driver_s, workers


def process_cpu_s(pid: int) -> float:
    """Return the CPU seconds of all threads of a process; 0 if it has ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as text:
            fields = text.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) * _TICK_S


def machine_cpu_s() -> float:
    """Return the seconds that all cores were used, or were the hypervisor's."""
    with open("/proc/stat", encoding="utf-8") as text:
        user, nice, system, _, _, interrupts, soft, stolen, *_ = map(int, text.readline().split()[1:])
    return (user + nice + system + interrupts + soft + stolen) * _TICK_S


def record(scenario: Scenario) -> Recording:
    """Run the scenario on Ray, which is connected."""
    prepared = Prepared(scenario)
    stages = tuple(prepared.app.stages)
    first = parse(scenario.composition, stages, name=scenario.composition)
    rate_per_s = scenario.load * prepared.capacity_per_s(first, scenario.waits)
    due_s = due_times(scenario, rate_per_s)
    pool = Watched(prepared.make_app, [stage.name for stage in stages])
    with _engine(pool, stages, first) as engine:
        begin_s = time.monotonic() + SETTLE_S
        usage = Usage(engine, begin_s)
        payloads = (pool.codec.encode([item]) for item in prepared.items())

        def kill() -> None:
            usage.count()  # afterwards nobody tells what it used
            with suppress(ProcessLookupError):  # it has just ended
                os.kill(engine.view().workers[0].pid, signal.SIGKILL)

        driven = drive(World(engine, payloads, kill, usage.look), due_s, events_of(scenario, stages), begin_s)
        usage.count()
    return _recorded(scenario, stages, rate_per_s, due_s, driven, _starts(pool, driven, begin_s), usage)


def events_of(scenario: Scenario, stages: Sequence[Stage]) -> list[tuple[float, Composition | str]]:
    """Return the scenario's events, with compositions in place of notations."""
    return [(at_s, KILL if what == KILL else parse(what, stages, name=what)) for at_s, what in scenario.events]


@contextmanager
def _engine(pool: Watched, stages: Sequence[Stage], first: Composition) -> Iterator[Engine]:
    """Yield an engine whose workers are all there."""
    engine = Engine(Dispatcher(stages, first, SETTINGS, pool.codec.size_bytes), pool)
    try:
        engine.start()
        until_s = engine.now_s + START_LIMIT_S
        while len(engine.view().workers) < first.workers:
            if engine.now_s > until_s:
                raise TimeoutError(f"the workers did not start within {START_LIMIT_S:g} s")
            engine.advance(engine.now_s + 0.1)
        yield engine
    finally:
        engine.close()


def _starts(pool: Watched, driven: Driven, begin_s: float) -> list[float]:
    """Return how long the starts under load took. Without one: how long ago, at the beginning, the first were asked
    for, which is more than they took."""
    asked_s = [at_s - begin_s for at_s in pool.asked_s]
    later = [at_s for at_s in asked_s if at_s >= 0]
    pairs = zip(later, driven.joined_s, strict=False)
    return [joined_s - at_s for at_s, joined_s in pairs] or [-asked_s[0] - SETTLE_S]


def _recorded(
    scenario: Scenario, stages: Sequence[Stage], rate_per_s: float, due_s: Floats, driven: Driven,
    starts_s: Sequence[float], usage: Usage,
) -> Recording:  # fmt: skip
    names = tuple(stage.name for stage in stages)
    cpu_s = {name: np.full(len(due_s), np.nan) for name in names}
    wall_s = {name: np.full(len(due_s), np.nan) for name in names}
    stages_cpu_s = 0.0
    for task in driven.timed:
        for timing in task.timings:
            cpu_s[timing.stage][task.serial] = timing.cpu_s
            wall_s[timing.stage][task.serial] = timing.wall_s
            stages_cpu_s += timing.cpu_s
    tasks = len(driven.timed)
    hops_s = [task.hop_s for task in driven.timed if task.hop_s is not None]
    return Recording(
        scenario.name, cores(), names, tuple(stage.name for stage in stages if stage.kind is StageKind.STATEFUL),
        rate_per_s, due_s, driven.delivered_s, cpu_s, wall_s, tasks,
        float(np.mean(hops_s)), float(np.percentile(hops_s, 25)),
        float(np.median(starts_s)), usage.driver_s / tasks, max(0.0, usage.workers_s - stages_cpu_s) / tasks,
        tuple(usage.others),
    )  # fmt: skip


# --- as JSON: times of items in whole microseconds --------------------------------------------------------------------


def to_json(recording: Recording) -> dict[str, Any]:
    """Return what ``from_json`` reads."""
    return {
        "scenario": recording.scenario, "cores": recording.cores, "stages": recording.stages,
        "stateful": recording.stateful, "rate_per_s": round(recording.rate_per_s, 4),
        "tasks": recording.tasks, "hop_s": round(recording.hop_s, 7),
        "least_hop_s": round(recording.least_hop_s, 7), "start_s": round(recording.start_s, 4),
        "driver_cpu_s": round(recording.driver_cpu_s, 7), "worker_cpu_s": round(recording.worker_cpu_s, 7),
        "others": [(round(at_s, 2), round(count, 3)) for at_s, count in recording.others],
        "due_us": _us(recording.due_s), "delivered_us": _us(recording.delivered_s),
        "cpu_us": {name: _us(values) for name, values in recording.cpu_s.items()},
        "wall_us": {name: _us(values) for name, values in recording.wall_s.items()},
    }  # fmt: skip


def from_json(read: Mapping[str, Any]) -> Recording:
    """Return the recording that ``to_json`` wrote."""
    return Recording(
        read["scenario"], read["cores"], tuple(read["stages"]), tuple(read["stateful"]), read["rate_per_s"],
        _s(read["due_us"]), _s(read["delivered_us"]),
        {name: _s(values) for name, values in read["cpu_us"].items()},
        {name: _s(values) for name, values in read["wall_us"].items()},
        read["tasks"], read["hop_s"], read["least_hop_s"], read["start_s"], read["driver_cpu_s"], read["worker_cpu_s"],
        tuple((at_s, count) for at_s, count in read["others"]),
    )  # fmt: skip


def _us(values_s: Floats) -> list[int | None]:
    return [None if np.isnan(value) else round(value * 1e6) for value in values_s.tolist()]


def _s(values_us: Sequence[int | None]) -> Floats:
    return np.array([np.nan if value is None else value / 1e6 for value in values_us])
