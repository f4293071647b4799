"""Measure the gain of bundles over single items, and the cost of a bundle, on Military Server with a full source.

    python -m lab.benchmarks.military_server [--quick] [--json] [--composition 2] [--kernel compiled] [--law FILE]

Throughput on the phase workload by the size of bundles (Leonarczyk 2024, figure 5.1), all results of a short run the
same as in single items; and latency and throughput at single widths, to each of which ``a + b · n`` is fitted.
``--law`` writes that to a file which ``lab.benchmarks.batch_controllers --law`` takes instead of its assumed law.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean, median, pstdev
from typing import Annotated, Any, Literal

import numpy as np

from apps import registry
from apps.military_server import MilitaryServer
from compositions.document.loader import load
from control.decisions import Mode
from lab.benchmarks.harness import Rows, Table, at_least, main, metadata
from lab.experiments.runs import delivered, delivering, to_the_end, wait_for
from service.runner.rpc.requests import ReadStatus, SetBatching
from service.runner.runner import Runner
from service.schemas.spec import BatchingSpec, RunSpec

SIZES = (1, 5, 10, 20, 50, 100, 115, 150, 200, 300)
QUICK_SIZES = (1, 115)
LAW_SIZES = (1, 5, 20, 50, 115, 200, 300)
WIDTHS = (2, 4, 6, 8, 10, 12)
PHASES = 4000
"""Tuples of the phase workload, over and over: rates are of whole ones."""
SETTLE_S, WINDOW_S = 0.7, 1.0
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
    """Variation of the latency within a second, from its median and 95th percentile, assuming a normal distribution."""
    drift_cv: float
    """Variation of the means of these seconds."""


@dataclass(frozen=True)
class Server:
    """One composition of the app, pinned."""

    composition: str
    options: Mapping[str, Any]

    def spec(self, **ending: Any) -> RunSpec:
        file = registry.compositions_file(MilitaryServer)
        assert file is not None
        compositions = load(file.read_bytes(), {MilitaryServer.name: MilitaryServer.stages}).compositions
        return RunSpec(
            app=MilitaryServer.name, options=dict(self.options), mode=Mode.PINNED, compositions=tuple(compositions),
            composition=self.composition, settings={"window_s": WINDOW_S}, **ending,
        )  # fmt: skip

    def running(self) -> AbstractContextManager[Runner]:
        return delivering(self.spec(batching=BatchingSpec(items=1)))

    def results(self, size: int, count: int) -> str:
        """Return the results of ``count`` tuples in bundles of ``size``."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "out.jsonl"
            to_the_end(self.spec(batching=BatchingSpec(items=size), items=count, out_path=str(path)))
            return path.read_text(encoding="utf-8")


def resized(runner: Runner, size: int) -> None:
    """Set the bundle size, and wait until those in flight have it."""
    runner.ask(SetBatching(BatchingSpec(items=size)))
    status = runner.ask(ReadStatus())
    wait_for(runner, status.items.accepted + 2 * size)
    time.sleep(SETTLE_S)


def rate_per_s(runner: Runner, seconds: float, size: int) -> float:
    """Measure whole turns of the phase workload."""
    resized(runner, size)
    before, began_s = delivered(runner), time.perf_counter()
    turns = 0
    while time.perf_counter() - began_s < seconds:
        turns += 1
        wait_for(runner, before + turns * PHASES)
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
        raise ValueError(f"composition {composition}: bundles of 115 have other results than single items")
    table = Table(f"phase workload, composition {composition}, kernel {kernel}, by bundle size", "items/s")
    with server.running() as runner:
        table.run({str(size): partial(rate_per_s, runner, seconds, size) for size in sizes}, rounds)
    best = max(map(str, sizes), key=table.median)
    table.goals = [at_least(f"bundles of {best}, times single items", best, 10.0, "1")]
    return table


# --- the law ---------------------------------------------------------------------------------------------------------


def points_of(composition: str, kernel: str, width: int, seconds: float, sizes: Sequence[int]) -> list[Point]:
    """Return a point per size, the best of its turns: other load makes bundles slower, never faster."""
    server = Server(composition, {"tuples": PHASES, "kernel": kernel, "narrowest": width, "widest": width})
    with server.running() as runner:
        turns = [[point(runner, seconds, width, size) for size in sizes] for _ in range(TURNS)]
    return [max(same, key=lambda each: each.items_per_s) for same in zip(*turns, strict=True)]


def fitted(points: Sequence[Point], in_flight: int) -> tuple[float, float]:
    """Fit ``a`` and ``b`` in milliseconds, by least squares of the relative error; both 0 or more.

    They describe ``in_flight`` times the time of a bundle at saturation, which is its latency with so many in flight.
    (Of single items there are dozens, since buffers are bounded in items as well.)
    """
    sizes = np.array([each.size for each in points])
    times_ms = np.array([in_flight * each.size / each.items_per_s * 1e3 for each in points])
    b, a = np.polyfit(sizes, times_ms, 1, w=1 / times_ms)
    return max(float(a), 0.0), max(float(b), 0.0)


def law(points: Sequence[Point], about: Mapping[str, str]) -> dict[str, Any]:
    """Return the law as ``lab.papers.leonarczyk.plant`` reads it."""
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


def law_rows(found: Mapping[str, Any], widths: Sequence[int]) -> Rows:
    fixed, overhead = shape(found)
    told = f"fixed {fixed:.3f} ms, and an overhead of {overhead:.1f} tuples; {found['in_flight']} bundles in flight"
    rows = [
        {"width": width, "a": a_ms, "b": b_ms}
        for width, a_ms, b_ms in zip(widths, found["a_ms"], found["b_ms"], strict=True)
    ]
    return Rows(f"time of a bundle of n at saturation: a + b · n [ms], by coordinate width; {told}", rows)


def shape(found: Mapping[str, Any]) -> tuple[float, float]:
    """Fit ``a = fixed + overhead · b`` over the widths, as ``slo-batch`` does."""
    overhead, fixed = np.polyfit(found["b_ms"], found["a_ms"], 1)
    return float(fixed), float(overhead)


def measure(
    quick: Annotated[bool, "one short round, few sizes and widths"] = False,
    composition: Annotated[str, "of compositions/military_server.yaml"] = "2",
    kernel: Literal["numpy", "compiled", "gpu"] = "compiled",
    law_: Annotated[Path | None, "measure the cost of bundles, and write it to this file"] = None,
) -> Iterator[Table | Rows]:
    rounds, seconds, sizes = (1, 1.0, QUICK_SIZES) if quick else (3, 2.5, SIZES)
    yield throughput(composition, kernel, rounds, seconds, sizes)
    if law_:
        widths, seconds, sizes = (WIDTHS[::5], 1.0, LAW_SIZES[::3]) if quick else (WIDTHS, 2.0, LAW_SIZES)
        points = [p for width in widths for p in points_of(composition, kernel, width, seconds, sizes)]
        found = law(points, {**metadata(), "composition": composition, "kernel": kernel})
        law_.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        yield law_rows(found, widths)


if __name__ == "__main__":
    main(measure, ray=True)
