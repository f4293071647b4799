"""Run all queries in all compositions and schedulers, in virtual time, while workers die and compositions change.

    python -m lab.benchmarks.query_matrix [--part 1/20] [--query q1] [--draw 40] [--seed 0]

The output must equal that of a plain loop, byte for byte, and the result of DuckDB. Each query runs in every grouping
with every possible number of workers from 1 to 16, divided over its groups at random, and in ``Dyn`` with each
scheduler and each of these numbers; with rows in bundles of each size, and portions of many rows (Arrow stages) in
bundles of one size, in turns. Each second a worker is killed and the composition changed, to any of up to 16 workers.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from apps.contract import Outputs
from compositions.dynamic import SCHEDULER_NAMES
from compositions.enumeration import generate
from compositions.model import Composition
from compositions.notation import parse
from lab.benchmarks.harness import Rows, Seed, main
from lab.benchmarks.tpcxbb import SQL, Stream, brought, compared, known, stages_of
from lab.papers.prasaad.figures import FINE
from lab.papers.prasaad.page import RECORDED
from lab.simulation.machine import Cost, Machine
from lab.simulation.pool import SimulatedPool
from runtime.dispatch.dispatcher import Dispatcher
from runtime.dispatch.events import SwitchStyle, WorkerId
from runtime.dispatch.instructions import Task
from runtime.dispatch.outcomes import Delivered, Outcome, SwitchEnded
from runtime.dispatch.settings import DispatcherSettings
from runtime.engine import Engine
from runtime.pools.local import PickleCodec

WORK_S = 3.0
"""CPU seconds of all items and stages together: one worker takes at least as long."""
PACED_S = 5.0
"""Least duration of the input; changes go on until all is out."""
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
    """Counts of what happened in runs."""

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
    """One run of a cell, and its output."""

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
        """Advance until something happens; ``trouble_s``: when a worker dies, and when the composition changes."""
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
        """Kill a worker, one that is at work if there is one."""
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


MOST_WORKERS = 16
ROWS = {1: (400, 0, 16), 16: (400, 0, 16), 256: (2_000, 0, 16), 4096: (9_000, 0, 16)}
"""Rows of the stream, rows in a portion, and partitions, by bundle size."""
PORTIONS = {1: (2_000, 25, 6), 16: (4_000, 25, 6), 4096: (2_500, 25, 12)}


@cache
def bound(query: str) -> Sequence[Composition]:
    """Return every composition of up to 16 workers that are bound to their groups."""
    return tuple(generate(stages_of(query), max_workers=MOST_WORKERS, replicas=range(1, MOST_WORKERS + 1)))


@cache
def dynamic(query: str) -> Sequence[Composition]:
    """Return ``Dyn`` with each scheduler and each number of workers."""
    names = [f"Dyn*{workers}({name})" for workers in range(1, MOST_WORKERS + 1) for name in SCHEDULER_NAMES]
    return tuple(parse(each, stages_of(query), name=each) for each in names)


@cache
def shapes(query: str) -> Sequence[Composition]:
    """Return those that have runs of their own."""
    chance, alike = random.Random(query), dict[object, list[Composition]]()
    for each in bound(query):
        alike.setdefault((each.grouping, each.workers), []).append(each)
    return (*map(chance.choice, alike.values()), *dynamic(query))


def cells(query: str, seed: int = 0) -> Iterator[Cell]:
    """Yield all runs of a query."""
    others = (*bound(query), *dynamic(query) * 3)
    portions = list(PORTIONS)
    for number, shape in enumerate(shapes(query)):
        for size, stream in ROWS.items():
            yield Cell(Stream(query, *stream), shape, size, seed, others)
        size = portions[number % len(portions)]
        yield Cell(Stream(query, *PORTIONS[size]), shape, size, seed, others)


def run(chosen: Sequence[Cell], folder: Path) -> tuple[Seen, list[str]]:
    """Return counts, and a sentence for each run whose output differs."""
    seen, faults = Seen(), []
    for cell in chosen:
        one = Run(cell, folder)
        try:
            one.play()
        except AssertionError as error:
            faults.append(str(error))
        seen.add(one.seen)
    return seen, faults


def _part(text: str, found: Sequence[Cell]) -> Sequence[Cell]:
    number, of = map(int, text.split("/"))
    return found[number - 1 :: of]


def recorded(queries: Sequence[str]) -> Rows:
    """Write how many answers of each query equal DuckDB's, with the hundred partitions of the paper."""
    with tempfile.TemporaryDirectory() as folder:
        counts = {name: compared(Stream(name, 4_000, 0, FINE), Path(folder)) for name in queries}
    rows = {name: {"answers": answers, "equal": equal} for name, (answers, equal) in counts.items()}
    (RECORDED / "queries.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return Rows("answers equal to DuckDB's", [{"query": name, **row} for name, row in rows.items()])


def measure(
    query: Annotated[tuple[Literal["q1", "q2", "q3", "q4", "q15"], ...], "queries to run"] = tuple(SQL),
    part: Annotated[str, "a share of the runs: 2/20 is the second of 20"] = "1/1",
    draw: Annotated[int, "number of runs to draw at random; 0: all"] = 0,
    seed: Seed = 0,
    record: Annotated[bool, "compare with DuckDB alone, for the page about the papers"] = False,
) -> Iterator[Rows]:
    if record:
        yield recorded(query)
        return
    every = [cell for name in query for cell in cells(name, seed)]
    chosen = random.Random(seed).sample(every, draw) if draw else _part(part, every)
    with tempfile.TemporaryDirectory() as folder:
        seen, faults = run(chosen, Path(folder))
    checks = {"every run equals a plain loop and DuckDB": not faults, **dict.fromkeys(faults, False)}
    yield Rows(f"{seen.runs} of {len(every)} runs, seed {seed}", [{**asdict(seen), "differ": len(faults)}], checks)


if __name__ == "__main__":
    main(measure)
