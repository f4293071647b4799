"""Replay a recording in the plant, and compare what came out."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import repeat

import numpy as np

from compositions.model import Stage, StageKind
from compositions.notation import parse
from lab.benchmarks.reality.drive import SETTINGS, World, drive
from lab.benchmarks.reality.recording import Recording, events_of
from lab.benchmarks.reality.scenarios import KILL, Floats, Scenario
from lab.gym.model import Machine, StageModel, Work
from lab.gym.plant import Plant
from runtime.dispatch.dispatcher import Dispatcher
from runtime.engine import Engine

SLOT_S = 0.02
"""The plant takes whole cores away: so long at a time, as often as makes the share that was measured."""
MARGIN_S = 0.5
"""Between the start of the last worker in the plant and the first item."""
MOST_WORKERS = 16


@dataclass(frozen=True, slots=True)
class Figures:
    """What is compared."""

    throughput_per_s: float
    """Items delivered until the last is due."""
    p50_s: float
    p95_s: float
    share: float
    """Of the items that were in time."""

    def over(self, other: Figures) -> Figures:
        """Return the ratios; NaN where ``other`` has 0."""
        return Figures(*(_ratio(getattr(self, name), getattr(other, name)) for name in Figures.__slots__))


@dataclass(frozen=True, slots=True)
class Compared:
    """One scenario in both worlds. The last three tell how hard it was."""

    scenario: str
    items: int
    real: Figures
    plant: Figures
    ratio: Figures
    busy: float
    """Share of the cores that stages used."""
    hops: float
    """Share of the cores that tasks used beside their stages."""
    others: float
    """Share of the cores that others used."""


def compare(recording: Recording, scenario: Scenario) -> Compared:
    """Replay the recording, and set it beside what was measured."""
    delivered_s = replay(recording, scenario)
    real = figures(recording.due_s, recording.delivered_s, scenario.bound_s)
    plant = figures(recording.due_s, delivered_s, scenario.bound_s)
    capacity_s = recording.cores * recording.due_s[-1]
    cpu_s = sum(float(np.nansum(values)) for values in recording.cpu_s.values())
    ends_s = _ends_s(recording)
    others_s = sum(count * (end_s - at_s) for (at_s, count), end_s in zip(recording.others, ends_s, strict=True))
    watched_s = recording.cores * (ends_s[-1] - recording.others[0][0])
    return Compared(
        scenario.name, len(recording.due_s), real, plant, plant.over(real),
        cpu_s / capacity_s, recording.tasks * _hop_cpu_s(recording) / capacity_s, others_s / watched_s,
    )  # fmt: skip


def figures(due_s: Floats, delivered_s: Floats, bound_s: float) -> Figures:
    """Return the figures of a run; an item that failed is late."""
    latency_s = delivered_s - due_s
    p50_s, p95_s = np.nanpercentile(latency_s, (50, 95))
    until_s = due_s[-1]
    throughput = np.count_nonzero(delivered_s <= until_s) / until_s
    return Figures(float(throughput), float(p50_s), float(p95_s), float(np.mean(latency_s <= bound_s)))


def replay(recording: Recording, scenario: Scenario) -> Floats:
    """Return when each item was delivered in the plant."""
    begin_s = recording.start_s + MARGIN_S
    stages = tuple(_stage(name, recording) for name in recording.stages)
    first = parse(scenario.composition, stages, name=scenario.composition)
    machine = machine_of(recording, scenario, begin_s)
    plant = Plant(_work(recording, scenario, begin_s), _models(recording), machine)
    engine = Engine(Dispatcher(stages, first, SETTINGS), plant)
    engine.start()
    while engine.now_s < begin_s:
        engine.advance(begin_s)
    world = World(engine, repeat(None), kill=lambda: None)  # the machine knows when workers die
    return drive(world, recording.due_s, events_of(scenario, stages), begin_s).delivered_s


def machine_of(recording: Recording, scenario: Scenario, begin_s: float) -> Machine:
    """Return this machine as the plant has it. The CPU time of the dispatcher is a part of each hop: here it runs on
    the same cores, and before and after its worker does."""
    hop_cpu_s = _hop_cpu_s(recording)
    return Machine(
        recording.cores, MOST_WORKERS, start_s=recording.start_s, hop_s=max(0.0, recording.hop_s - hop_cpu_s),
        hop_cpu_s=hop_cpu_s, taken=taken_slots(recording, begin_s),
        deaths_s=tuple(begin_s + at_s for at_s, what in scenario.events if what == KILL),
    )  # fmt: skip


def _hop_cpu_s(recording: Recording) -> float:
    return recording.driver_cpu_s + recording.worker_cpu_s


def taken_slots(recording: Recording, begin_s: float) -> tuple[tuple[float, int], ...]:
    """Return whole cores that others take, slot by slot: what a slot has too much, a later one has less."""
    taken, owed, before = [(0.0, 0)], 0.0, 0
    for (at_s, share), end_s in zip(recording.others, _ends_s(recording), strict=True):
        for slot_s in np.arange(at_s, end_s, SLOT_S).tolist():
            owed += share
            count = min(int(owed), recording.cores)
            owed = min(owed - count, 1.0)
            if count != before:
                taken.append((begin_s + slot_s, count))
                before = count
    return tuple(taken)


def _ends_s(recording: Recording) -> list[float]:
    """Return when each time of ``others`` ends; they are a second long as a rule."""
    return [at_s for at_s, _ in recording.others[1:]] + [recording.others[-1][0] + 1.0]


def _work(recording: Recording, scenario: Scenario, begin_s: float) -> Work:
    cpu_s, wait_s = [], []
    for name in recording.stages:
        computed_s = _filled(recording.cpu_s[name])
        waited_s = _filled(recording.wall_s[name]) - computed_s
        cpu_s.append(computed_s)
        wait_s.append(np.maximum(waited_s, 0.0) if name in scenario.waits else np.zeros_like(computed_s))
    return Work(begin_s + recording.due_s, np.column_stack(cpu_s), np.column_stack(wait_s))


def _filled(values_s: Floats) -> Floats:
    """Return the times with the mean for items that a stage failed on."""
    return np.where(np.isnan(values_s), np.nanmean(values_s), values_s)


def _stage(name: str, recording: Recording) -> Stage:
    return Stage(name, StageKind.STATEFUL if name in recording.stateful else StageKind.STATELESS)


def _models(recording: Recording) -> tuple[StageModel, ...]:
    return tuple(StageModel(name, name in recording.stateful) for name in recording.stages)


def _ratio(one: float, other: float) -> float:
    return one / other if other else float("nan")
