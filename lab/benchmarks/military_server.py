"""Military Server, its source always full: what bundles give over single items, and what a bundle costs.

    python -m lab.benchmarks.military_server [--quick] [--json] [--composition 2] [--kernel compiled] [--law FILE]

Throughput on the phase workload by the size of bundles (Leonarczyk 2024, figure 5.1), all results of a short run the
same as in single items; and latency and throughput at single widths, to each of which ``a + b · n`` is fitted.
``--law`` writes that to a file which ``lab.benchmarks.batch_controllers --law`` takes instead of its assumed law.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean, median, pstdev
from typing import Any

import numpy as np

from apps import registry
from apps.military_server import MilitaryServer
from compositions.document.loader import load
from control.decisions import Mode
from lab.benchmarks.harness import Goal, Table, metadata, options, report
from runtime.pools.ray import cluster
from service.runner.rpc.requests import ReadStatus, ReadSummary, SetBatching, Start, Stop
from service.runner.runner import Runner
from service.schemas.spec import BatchingSpec, RunSpec

SIZES = (1, 5, 10, 20, 50, 100, 115, 150, 200, 300)
QUICK_SIZES = (1, 115)
LAW_SIZES = (1, 5, 20, 50, 115, 200, 300)
WIDTHS = (2, 4, 6, 8, 10, 12)
PHASES = 4000
"""Tuples of the phase workload, over and over: rates are of whole ones."""
UP_S, SETTLE_S, WINDOW_S = 60.0, 0.7, 1.0
TURNS = 2


@dataclass(frozen=True)
class Point:
    """Bundles of one size of tuples of one width, at saturation."""

    width: int
    size: int
    items_per_s: float
    latency_ms: float
    """Mean over items, from when they were read."""
    in_flight: float
    """Bundles, by Little's law: rate times latency."""
    cv: float
    """Of the latency within a second, from its median and its 95th percentile, as though it were normal."""
    drift_cv: float
    """Of the means of these seconds."""


@dataclass(frozen=True)
class Server:
    """One composition of the app, pinned."""

    composition: str
    options: Mapping[str, Any]
    points: list[Point] = field(default_factory=list)

    def spec(self, **ending: Any) -> RunSpec:
        file = registry.compositions_file(MilitaryServer)
        assert file is not None
        compositions = load(file.read_bytes(), {MilitaryServer.name: MilitaryServer.stages}).compositions
        return RunSpec(
            app=MilitaryServer.name, options=dict(self.options), mode=Mode.PINNED, compositions=tuple(compositions),
            composition=self.composition, settings={"window_s": WINDOW_S}, **ending,
        )  # fmt: skip

    @contextmanager
    def running(self) -> Iterator[Runner]:
        runner = Runner(self.spec(batching=BatchingSpec(items=1)))
        runner.ask(Start())
        try:
            reach(runner, 1)
            yield runner
        finally:
            runner.ask(Stop(drain=False))
        items = runner.ask(ReadSummary()).items
        if items is None or items.failed or items.lost or items.misordered:
            raise ValueError(f"composition {self.composition}: {items}")

    def results(self, size: int, count: int) -> str:
        """What ``count`` tuples come to in bundles of ``size``."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "out.jsonl"
            runner = Runner(self.spec(batching=BatchingSpec(items=size), items=count, out_path=str(path)))
            runner.ask(Start())
            runner.wait(UP_S)
            runner.ask(Stop())
            return path.read_text(encoding="utf-8")


def delivered(runner: Runner) -> int:
    return runner.ask(ReadStatus()).items.delivered


def reach(runner: Runner, count: int) -> None:
    until_s = time.monotonic() + UP_S
    while delivered(runner) < count:
        if time.monotonic() > until_s:
            raise TimeoutError(f"{count} tuples were not delivered within {UP_S:g} s")
        time.sleep(0.02)


def resized(runner: Runner, size: int) -> None:
    """From now on bundles are of that size, those in flight included."""
    runner.ask(SetBatching(BatchingSpec(items=size)))
    status = runner.ask(ReadStatus())
    reach(runner, status.items.accepted + 2 * size)
    time.sleep(SETTLE_S)


def rate_per_s(runner: Runner, seconds: float, size: int) -> float:
    """Over whole turns of the phase workload."""
    resized(runner, size)
    before, began_s = delivered(runner), time.perf_counter()
    turns = 0
    while time.perf_counter() - began_s < seconds:
        turns += 1
        reach(runner, before + turns * PHASES)
    return (delivered(runner) - before) / (time.perf_counter() - began_s)


def point(runner: Runner, seconds: float, width: int, size: int) -> Point:
    resized(runner, size)
    before, began_s = delivered(runner), time.perf_counter()
    seen = []
    while time.perf_counter() - began_s < seconds:
        time.sleep(WINDOW_S)
        seen.append(runner.ask(ReadStatus()).latency_ms)
    items_per_s = (delivered(runner) - before) / (time.perf_counter() - began_s)
    means = [each.mean or 0.0 for each in seen]
    spreads = [((each.p95 or 0.0) / (each.p50 or 1.0) - 1) / 1.645 for each in seen]
    latency_ms = fmean(means)
    in_flight = items_per_s * latency_ms / 1e3 / size
    return Point(width, size, items_per_s, latency_ms, in_flight, median(spreads), pstdev(means) / latency_ms)


# --- throughput ------------------------------------------------------------------------------------------------------


def throughput(composition: str, kernel: str, rounds: int, seconds: float, sizes: Sequence[int]) -> Table:
    server = Server(composition, {"tuples": PHASES, "kernel": kernel})
    if server.results(115, PHASES) != server.results(1, PHASES):
        raise ValueError(f"composition {composition}: bundles of 115 give something else than single items")
    table = Table(f"phase workload, composition {composition}, kernel {kernel}, by size of bundles", "items/s")
    with server.running() as runner:
        measures: dict[str, Callable[[], float]] = {
            str(size): partial(rate_per_s, runner, seconds, size) for size in sizes
        }
        table.run(measures, rounds)
    best = max(measures, key=table.median)
    table.goals = [Goal(f"bundles of {best}, times single items", best, "1", 10.0, False)]
    return table


# --- the law ---------------------------------------------------------------------------------------------------------


def points_of(composition: str, kernel: str, width: int, seconds: float, sizes: Sequence[int]) -> list[Point]:
    """A point a size, the best of its turns: what else the machine does makes bundles dearer, never cheaper."""
    server = Server(composition, {"tuples": PHASES, "kernel": kernel, "narrowest": width, "widest": width})
    with server.running() as runner:
        turns = [[point(runner, seconds, width, size) for size in sizes] for _ in range(TURNS)]
    return [max(same, key=lambda each: each.items_per_s) for same in zip(*turns, strict=True)]


def fitted(points: Sequence[Point], in_flight: int) -> tuple[float, float]:
    """``a`` and ``b`` in milliseconds, by least squares of the relative error; both 0 or more.

    Of ``in_flight`` times what a bundle takes at saturation, which is its latency where so many are in flight. (Of
    single items there are dozens, since buffers are bounded in items as well.)
    """
    sizes = np.array([each.size for each in points])
    times_ms = np.array([in_flight * each.size / each.items_per_s * 1e3 for each in points])
    b, a = np.polyfit(sizes, times_ms, 1, w=1 / times_ms)
    return max(float(a), 0.0), max(float(b), 0.0)


def law(points: Sequence[Point], about: Mapping[str, str]) -> dict[str, Any]:
    """As ``lab.papers.leonarczyk.measured`` reads it."""
    widths = sorted({each.width for each in points})
    in_flight = round(median(each.in_flight for each in points))
    fits = [fitted([each for each in points if each.width == width], in_flight) for width in widths]
    span = widths[-1] - widths[0]
    return {
        "about": dict(about),
        "loads": [(width - widths[0]) / span for width in widths],
        "a_ms": [round(a, 4) for a, _ in fits],
        "b_ms": [round(b, 5) for _, b in fits],
        "cv": round(median(each.cv for each in points), 3),
        "drift_cv": round(median(each.drift_cv for each in points), 3),
        "in_flight": in_flight,
        "points": [vars(each) for each in points],
    }


def law_lines(found: Mapping[str, Any], widths: Sequence[int]) -> Iterator[str]:
    yield "what a bundle of n takes from source to sink at saturation: a + b · n, by coordinate width [ms]"
    for width, a_ms, b_ms in zip(widths, found["a_ms"], found["b_ms"], strict=True):
        yield f"  width {width:<4}a {a_ms:8.3f}   b {b_ms:8.4f}"
    fixed, overhead = shape(found)
    yield f"  fixed {fixed:.3f} ms, and an overhead of {overhead:.1f} tuples; {found['in_flight']} bundles in flight"


def shape(found: Mapping[str, Any]) -> tuple[float, float]:
    """``a = fixed + overhead · b`` over the widths, as ``slo-batch`` sees a law."""
    overhead, fixed = np.polyfit(found["b_ms"], found["a_ms"], 1)
    return float(fixed), float(overhead)


def main() -> None:
    parser = options(__doc__, "one short round, few sizes and widths")
    parser.add_argument("--composition", default="2", help="of compositions/military_server.yaml")
    parser.add_argument("--kernel", default="compiled", choices=["numpy", "compiled", "gpu"])
    parser.add_argument("--law", type=Path, metavar="FILE", help="measure the cost of bundles, and write it there")
    given = parser.parse_args()
    rounds, seconds, sizes = (1, 1.0, QUICK_SIZES) if given.quick else (3, 2.5, SIZES)
    cluster.connect()
    try:
        table = throughput(given.composition, given.kernel, rounds, seconds, sizes)
        report([table], given.json)
        if given.law:
            of, seconds, sizes = (WIDTHS[::5], 1.0, LAW_SIZES[::3]) if given.quick else (WIDTHS, 2.0, LAW_SIZES)
            points = [p for width in of for p in points_of(given.composition, given.kernel, width, seconds, sizes)]
            found = law(points, {**metadata(), "composition": given.composition, "kernel": given.kernel})
            given.law.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
            print("\n" + "\n".join(law_lines(found, of)))
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main()
