"""One run of the matrix: a query in virtual time while workers die, partitions move and compositions change."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apps.contract import Outputs
from benchmarks.matrix.streams import Stream, brought, known
from compositions.model import Composition
from runtime.dispatch.dispatcher import Dispatcher
from runtime.dispatch.events import SwitchStyle, WorkerId
from runtime.dispatch.instructions import Task
from runtime.dispatch.outcomes import Delivered, Outcome, SwitchEnded
from runtime.dispatch.settings import DispatcherSettings
from runtime.engine import Engine
from runtime.pools.local import PickleCodec
from runtime.pools.simulated import SimulatedPool
from runtime.pools.simulated_machine import Cost, Machine

WORK_S = 3.0
"""Of CPU, for all items and stages together: as many seconds with one worker, at least."""
PACED_S = 5.0
"""The stream comes in so long, at least; changes go on until all is out."""
EVERY_S = 1.0
"""The composition changes, and a worker dies."""
GIVEN_UP_S = 900.0
LIMITS = DispatcherSettings(buffer_items=1_000_000, losses=100, reorder_items=100_000)
"""A task may lose a hundred workers: of one worker that dies each second three may well have the same."""


@dataclass(frozen=True)
class Cell:
    """One run. ``shape`` is the composition of every second second; ``among``, those that it changes to and back."""

    stream: Stream
    shape: Composition
    bundle: int
    seed: int
    among: Sequence[Composition] = ()

    @property
    def name(self) -> str:
        form = "_arrow" if self.stream.portion else ""
        return f"{self.stream.query}{form} {self.shape.name} bundles of {self.bundle}, seed {self.seed}"


@dataclass
class Seen:
    """What happened in runs."""

    runs: int = 0
    kills: int = 0
    switches: int = 0
    moved: int = 0
    """Partitions that came to a worker with their states."""

    def add(self, other: Seen) -> None:
        self.runs += other.runs
        self.kills += other.kills
        self.switches += other.switches
        self.moved += other.moved


class _Pool(SimulatedPool):
    """Counts the partitions that a task brings with their states."""

    moved = 0

    def send(self, worker: WorkerId, tasks: Sequence[Task]) -> None:
        self.moved += brought(tasks)
        super().send(worker, tasks)


class Run:
    """What comes out of a cell."""

    def __init__(self, cell: Cell, folder: Path) -> None:
        self._cell, self._folder = cell, folder
        self._known = known(cell.stream, folder)
        self._chance = random.Random(cell.seed)
        self._codec = PickleCodec()
        self.values: list[Any] = []
        self.seen = Seen(runs=1)

    def play(self) -> None:
        """Raises: AssertionError with the first that differs from a plain loop, or if not all comes out."""
        cell, app = self._cell, self._cell.stream.make(self._folder)
        cpu_s = WORK_S / len(self._known.items) / len(app.stages)
        pool = _Pool(
            lambda stage, serial: Cost(cpu_s),
            Machine(cores=16, start_s=0.2),
            lambda: type(app)(app.options),
        )
        engine = Engine(Dispatcher(app.stages, cell.shape, LIMITS), pool)
        engine.start()
        try:
            self._feed(engine, pool)
        finally:
            engine.close()
        self.seen.moved = pool.moved
        told = json.dumps(self.values)
        assert told == self._known.told, f"{cell.name}: {_difference(told, self._known.told)}"

    def _feed(self, engine: Engine, pool: _Pool) -> None:
        items, size = self._known.items, self._cell.bundle
        bundles = [items[at : at + size] for at in range(0, len(items), size)]
        trouble_s = [self._chance.uniform(0, EVERY_S), EVERY_S]
        for number, bundle in enumerate(bundles):
            due_s = PACED_S * number / len(bundles)
            while engine.now_s < due_s or not engine.has_room:
                self._step(engine, pool, trouble_s, max(due_s, engine.now_s + 0.01))
            engine.admit(self._codec.encode(bundle), (engine.now_s,) * len(bundle))
        while not engine.idle:
            assert engine.now_s < GIVEN_UP_S, f"{self._cell.name}: {len(self.values)} values, and no more"
            self._step(engine, pool, trouble_s, engine.now_s + EVERY_S)

    def _step(self, engine: Engine, pool: _Pool, trouble_s: list[float], until_s: float) -> None:
        """Until something happens; ``trouble_s``: when a worker dies, and when the composition changes."""
        for outcome in engine.advance(min(until_s, *trouble_s)):
            self._take(outcome)
        now_s = engine.now_s
        if now_s >= trouble_s[0]:
            trouble_s[0] = now_s + self._chance.uniform(0.5, 1.5) * EVERY_S
            self._kill(engine, pool)
        if now_s >= trouble_s[1]:
            trouble_s[1] = now_s + EVERY_S
            self._change(engine)

    def _kill(self, engine: Engine, pool: _Pool) -> None:
        """One that is at work, if there is one."""
        workers = engine.view().workers
        at_work = [each for each in workers if each.outstanding] or list(workers)
        if at_work:
            pool.lose(self._chance.choice(at_work).worker)
            self.seen.kills += 1

    def _change(self, engine: Engine) -> None:
        view = engine.view()
        if view.switching or not self._cell.among:
            return
        other = view.composition.shape == self._cell.shape.shape
        found = self._chance.choice(self._cell.among) if other else self._cell.shape
        engine.switch(found, self._chance.choice(list(SwitchStyle)))
        self.seen.switches += 1

    def _take(self, outcome: Outcome) -> None:
        if isinstance(outcome, SwitchEnded):
            return
        if isinstance(outcome, Delivered):
            assert outcome.error is None, f"{self._cell.name}: {outcome.error}"
            for value in self._codec.decode(outcome.payload, outcome.start, outcome.start + outcome.count):
                self.values += value if isinstance(value, Outputs) else [value]


def _difference(told: str, wanted: str) -> str:
    at = next((at for at, pair in enumerate(zip(told, wanted, strict=False)) if pair[0] != pair[1]), 0)
    return f"{told[max(0, at - 40) : at + 40]!r} where a plain loop tells {wanted[max(0, at - 40) : at + 40]!r}"
