"""Queries of TPCx-BB in virtual time: while workers die and compositions change, results equal a plain loop's."""

import json
import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from apps.contract import Outputs
from apps.registry import create
from compositions.dynamic import SCHEDULER_NAMES
from compositions.enumeration import generate
from compositions.model import Composition
from compositions.notation import parse
from lab.benchmarks.tpcxbb import SQL, Known, Stream, known
from lab.simulation.machine import Cost, Machine
from lab.simulation.pool import SimulatedPool
from runtime.dispatch.dispatcher import Dispatcher
from runtime.dispatch.events import SwitchStyle, WorkerId
from runtime.dispatch.instructions import Task
from runtime.dispatch.outcomes import Delivered, Outcome
from runtime.dispatch.settings import DispatcherSettings
from runtime.engine import Engine
from runtime.pools.local import PickleCodec

WORK_S = 3.0
"""CPU seconds of all items and stages together: one worker takes at least as long."""
PACED_S = 5.0
"""Least duration of the input; changes go on until all is out."""
GIVEN_UP_S = 900.0
LIMITS = DispatcherSettings(buffer_items=1_000_000, losses=100, reorder_items=100_000)
"""A task may lose a hundred workers: of one worker that dies each second three may well have the same."""
WORKERS = range(1, 17)
STREAMS = [
    ("rows one by one", (400, 0, 16), 1),
    ("rows in bundles of 16", (400, 0, 16), 16),
    ("rows in bundles of 256", (2_000, 0, 16), 256),
    ("portions one by one", (2_000, 25, 6), 1),
    ("portions in bundles of 16", (4_000, 25, 6), 16),
]


@cache
def shapes(query: str) -> Sequence[Composition]:
    """Return compositions of up to 16 workers that are bound to their groups, and as many whose workers choose."""
    stages = create(f"tpcxbb_{query}", {}).stages
    free = [f"Dyn*{workers}({name})" for workers in WORKERS for name in SCHEDULER_NAMES]
    return (*generate(stages, max_workers=16, replicas=WORKERS), *(parse(each, stages, name=each) for each in free * 3))


class Pool(SimulatedPool):
    """Counts the partitions that come to a worker with their states."""

    moved = 0

    def send(self, worker: WorkerId, tasks: Sequence[Task]) -> None:
        kept = [each for task in tasks if task.keyed for each in task.keyed.kept.values()]
        self.moved += sum(bool(states) for each in kept for states in each.values())
        super().send(worker, tasks)


class Run:
    """A run in which a worker dies and the composition changes every second."""

    def __init__(self, stream: Stream, folder: Path, chance: random.Random) -> None:
        self.known: Known = known(stream, folder)
        self._chance, self._shapes, self._codec = chance, shapes(stream.query), PickleCodec()
        app = stream.make(folder)
        cpu_s = WORK_S / len(self.known.items) / len(app.stages)
        self.pool = Pool(lambda *_: Cost(cpu_s), Machine(cores=16, start_s=0.2), lambda: type(app)(app.options))
        self._engine = Engine(Dispatcher(app.stages, chance.choice(self._shapes), LIMITS), self.pool)
        self.values: list[Any] = []
        self.kills = self.switches = 0
        self._next_s = 1.0

    def play(self, size: int) -> str:
        items, engine = self.known.items, self._engine
        bundles = [items[at : at + size] for at in range(0, len(items), size)]
        engine.start()
        for number, bundle in enumerate(bundles):
            due_s = PACED_S * number / len(bundles)
            while engine.now_s < due_s or not engine.has_room:
                self._step(max(due_s, engine.now_s + 0.01))
            engine.admit(self._codec.encode(bundle), (engine.now_s,) * len(bundle))
        while not engine.idle:
            assert engine.now_s < GIVEN_UP_S, f"{len(self.values)} values, and no more"
            self._step(self._next_s)
        engine.close()
        return json.dumps(self.values)

    def _step(self, until_s: float) -> None:
        for outcome in self._engine.advance(min(until_s, self._next_s)):
            self._take(outcome)
        if self._engine.now_s < self._next_s:
            return
        self._next_s += 1.0
        view = self._engine.view()
        if at_work := [each for each in view.workers if each.outstanding] or list(view.workers):
            self.pool.lose(self._chance.choice(at_work).worker)
            self.kills += 1
        if not view.switching:
            self._engine.switch(self._chance.choice(self._shapes), self._chance.choice(list(SwitchStyle)))
            self.switches += 1

    def _take(self, outcome: Outcome) -> None:
        if isinstance(outcome, Delivered):
            assert outcome.error is None, outcome.error
            for value in self._codec.decode(outcome.payload, outcome.start, outcome.start + outcome.count):
                self.values += value if isinstance(value, Outputs) else [value]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("streams")


@pytest.mark.parametrize("query", SQL)
@pytest.mark.parametrize(("text", "stream", "size"), STREAMS, ids=[text for text, _, _ in STREAMS])
def test_a_drawn_run_tells_what_a_plain_loop_and_duckdb_tell(
    folder: Path, query: str, text: str, stream: tuple[int, int, int], size: int
) -> None:
    run = Run(Stream(query, *stream), folder, random.Random(f"{query}, {text}"))
    assert run.play(size) == run.known.told
    assert run.kills > 0 < run.switches
    assert run.pool.moved > 0
