"""Figures 9, 12 and 13 of Prasaad et al. with threads that contend for queue, ring and lock.

    python -m lab.benchmarks.contention [--runs 3] [--workers 4] [--record]

Each thread takes tuples, computes and sends outputs by itself, as in the paper. A tuple computes by hashing, which lets
other threads run. Outputs of each run are compared with those of a serial run. Cases take turns. It needs no library,
so it runs on free-threaded Python as well, where threads also contend for what the interpreter's lock orders otherwise.
On two cores, four threads that contend show what waiting costs; sixteen cores are needed for the paper's speed-ups.
"""

from __future__ import annotations

import hashlib
import math
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import Annotated, Any

from compositions.model import StageKind
from lab.benchmarks.contending import (
    FreeQueue,
    HybridQueue,
    KeyedQueue,
    LockOrder,
    PartitionedQueue,
    RingOrder,
    SharedQueue,
    Stage,
    run_threads,
)
from lab.benchmarks.harness import Rows, main, progress
from lab.papers.prasaad.figures import FINE, Cell, Figure, normal_bounds
from lab.papers.prasaad.operators import Operator, serial_run
from lab.papers.prasaad.runs import Run

MakeWork = Callable[[float], Callable[[], None]]
LIMIT_S = 600.0
BLOCK = bytes(1 << 20)
RING = 1024
SIGMA = 0.2
"""Of figure 9's skewed keys, about 0.5: with few ranges those about 0 are even whatever σ is."""
INPUTS = {9: 4000, 12: 20_000, 13: 100}
ORDERS: dict[str, Callable[[Any], Any]] = {"non-blocking": partial(RingOrder, slots=RING), "lock": LockOrder}
KEYED: dict[str, Callable[[int], KeyedQueue]] = {
    "hybrid": HybridQueue, "partitioned": PartitionedQueue, "shared": SharedQueue
}  # fmt: skip


def calibrated() -> MakeWork:
    """Return a maker of functions that hash for so many seconds of CPU."""
    per_s = len(BLOCK) / min(_hash_s() for _ in range(9))

    def make(seconds: float) -> Callable[[], None]:
        data = memoryview(BLOCK)[: int(seconds * per_s)]
        return lambda: hashlib.sha256(data).digest() and None

    return make


def _hash_s() -> float:
    began_s = time.thread_time()
    hashlib.sha256(BLOCK)
    return time.thread_time() - began_s


class Left:
    """The end of a pipeline."""

    def __init__(self) -> None:
        self.values: list[int] = []
        self.units = 0

    def take(self, values: list[int]) -> None:
        self.values += values
        self.units += 1


def run_case(figure: int, way: str, workers: int, make_work: MakeWork, inputs: range) -> Run:
    """Run one case. Raises: AssertionError if its outputs are not those of a serial run."""
    left = Left()
    stages, operators = _pipeline(figure, way, workers, make_work, left)
    for value in inputs:
        stages[0].add(value)
    units = len(inputs) * (50 if figure == 13 else 1)
    took_s = run_threads(stages, workers, lambda: left.units == units, LIMIT_S)
    assert left.values == serial_run(operators, inputs), f"figure {figure}, {way}: not what a serial run gives"
    return Run(len(inputs) / took_s, 0.0, 0.0, 1e6 * workers * took_s / len(inputs), ())


def _pipeline(
    figure: int, way: str, workers: int, make_work: MakeWork, left: Left
) -> tuple[Sequence[Stage], Sequence[Operator]]:
    if figure == 12:
        light = Operator("light", StageKind.STATELESS, 2e-5)
        return [Stage(light, FreeQueue(), ORDERS[way](left.take), make_work(2e-5))], [light]
    if figure == 9:
        count = workers if way == "partitioned" else FINE
        keyed = Operator("by key", StageKind.PARTITIONED, 1e-4, 1.0, count, 0.0, normal_bounds(SIGMA, count, 0.5))
        return [Stage(keyed, KEYED[way](count), RingOrder(left.take, RING), make_work(1e-4))], [keyed]
    many = Operator("flat map", StageKind.STATELESS, 1e-4, 50.0)
    keyed = Operator("by key", StageKind.PARTITIONED, 1e-4, 1.0, FINE)
    second = Stage(keyed, HybridQueue(FINE), ORDERS[way](left.take), make_work(1e-4))
    first = Stage(
        many, FreeQueue(), ORDERS[way](lambda values: [second.add(value) for value in values]), make_work(1e-4)
    )
    return [first, second], [many, keyed]


def measure(
    runs: Annotated[int, "of each case"] = 3,
    workers: Annotated[int, "most threads"] = 4,
    share: Annotated[float, "of the inputs: threads without the interpreter's lock are slow on busy cores"] = 1.0,
    out: Path = Path("ordered"),
    record: Annotated[bool, "also write the table that lab.papers.prasaad.page reads"] = False,
) -> Iterator[Rows]:
    make_work = calibrated()
    counts = [1, 2, workers] if workers > 2 else [1, workers]
    ways = [(9, queue) for queue in KEYED] + [(figure, order) for figure in (12, 13) for order in ORDERS]
    cases = [(figure, way, count) for (figure, way), count in product(ways, counts)]
    rows: dict[tuple[Cell, ...], list[Run]] = {case: [] for case in cases}
    for number in range(runs):
        for case in cases:
            count = math.ceil(share * INPUTS[case[0]])
            rows[case].append(run_case(*case, make_work, range(number * count, (number + 1) * count)))
        progress(f"run {number + 1} of {runs}")
    free = not getattr(sys, "_is_gil_enabled", lambda: True)()
    name = f"threads-{platform.python_version()}{'-free' if free else ''}"
    figure = Figure(name, "threads that contend", ("figure", "way", "workers"), rows)
    for folder in [out, *([Path(__file__).parents[1] / "papers/prasaad/recorded"] if record else [])]:
        folder.mkdir(parents=True, exist_ok=True)
        figure.write(folder)
    yield Rows(f"Threads that contend, Python {name.removeprefix('threads-')}", [
        {
            "figure": case[0], "way": case[1], "threads": case[2],
            "inputs/s": median(run.throughput_per_s for run in found),
            "from": min(run.throughput_per_s for run in found), "to": max(run.throughput_per_s for run in found),
            "thread time an input, µs": median(run.worker_us for run in found),
        } for case, found in rows.items()
    ])  # fmt: skip


if __name__ == "__main__":
    main(measure)
