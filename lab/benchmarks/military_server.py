"""Measure the gain of bundles over single items on Military Server, and run its batch controllers on workers.

    python -m lab.benchmarks.military_server [--quick] [--json] [--composition 2] [--kernel compiled] [--controllers]

Throughput of a full source on the phase workload by the size of bundles (Leonarczyk 2024, figure 5.1), all results of a
short run the same as in single items. ``--controllers``: instead, ``slo-batch`` and the setups with the best itemized
hits at 5 % of tables 5.1 and 5.5, at the thesis's target of 3 ms. Tuples are small there, and no bundle is prefetched,
as single tuples would miss the target otherwise.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from apps import registry
from apps.military_server import MilitaryServer
from compositions.document.loader import load
from control.decisions import Mode
from lab.benchmarks.harness import Rows, Table, at_least, main
from lab.experiments.runs import delivered, delivering, to_the_end, wait_for
from lab.papers.leonarczyk.grid import OURS, PUBLISHED, TARGET_MS, BundleFigures, Setup, bundle_figures
from lab.papers.leonarczyk.published import ITEMIZED_HIT, THRESHOLDS
from lab.papers.leonarczyk.tables import printed_setup
from profiler.slo import Slo
from service.runner.rpc.requests import ReadStatus, SetBatching
from service.runner.runner import Runner
from service.schemas.spec import BatchingSpec, Ending, RunSpec, TelemetrySpec

SIZES = (1, 5, 10, 20, 50, 100, 115, 150, 200, 300)
QUICK_SIZES = (1, 115)
PHASES = 4000
"""Tuples of the phase workload, repeated; rates cover whole repetitions."""
CONTROLLED = 20_000
"""Number of tuples in a run with a controller."""
SMALL = {"narrowest": 1, "widest": 8}
SETTLE_S, WINDOW_S = 0.7, 1.0


@dataclass(frozen=True)
class Server:
    """One composition of the app, pinned."""

    composition: str
    options: Mapping[str, Any]

    def spec(self, **rest: Any) -> RunSpec:
        file = registry.compositions_file(MilitaryServer)
        assert file is not None
        compositions = load(file.read_bytes(), {MilitaryServer.name: MilitaryServer.stages}).compositions
        return RunSpec(
            app=MilitaryServer.name, options=dict(self.options), mode=Mode.PINNED, compositions=tuple(compositions),
            composition=self.composition, **rest,
        )  # fmt: skip

    def running(self) -> AbstractContextManager[Runner]:
        return delivering(self.spec(batching=BatchingSpec(items=1), settings={"window_s": WINDOW_S}))

    def results(self, size: int, count: int) -> str:
        """Return the results of ``count`` tuples in bundles of ``size``."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "out.jsonl"
            to_the_end(self.spec(batching=BatchingSpec(items=size), items=count, out_path=str(path)))
            return path.read_text(encoding="utf-8")

    def controlled(self, setup: Setup, tuples: int) -> BundleFigures:
        """Run ``tuples`` under a controller that aims at ``TARGET_MS``, counted from a bundle's first read."""
        batching = BatchingSpec(
            controller=setup.controller, settings={"threshold": THRESHOLDS[0], **dict(setup.values)}
        )
        with tempfile.TemporaryDirectory() as folder:
            ending = Ending(items=tuples, telemetry=TelemetrySpec(folder=folder))
            slo, settings = Slo("latency", TARGET_MS), {"prefetch_below_s": 0, "buffer_items": 1}
            to_the_end(self.spec(batching=batching, slo=slo, settings=settings, ending=ending))
            return judged(pq.read_table(Path(folder) / "items", columns=["serial", "read", "delivered", "batch"]))


def judged(items: pa.Table) -> BundleFigures:
    """Judge the bundles of a run by its telemetry; a bundle's latency begins with its first read."""
    ordered = items.sort_by("serial")
    read, out, batch = (np.array(ordered.column(name).cast("int64")) for name in ("read", "delivered", "batch"))
    last = np.flatnonzero(batch)
    latencies_s = (out[last] - read[last - batch[last] + 1]) / 1e6
    found = bundle_figures(latencies_s, batch[last], TARGET_MS / 1e3, THRESHOLDS[0])
    assert found is not None, "bundles were delivered"
    return found


def resized(runner: Runner, size: int) -> None:
    """Set the bundle size, and wait until the bundles in flight have it."""
    runner.ask(SetBatching(BatchingSpec(items=size)))
    status = runner.ask(ReadStatus())
    wait_for(runner, status.items.accepted + 2 * size)
    time.sleep(SETTLE_S)


def rate_per_s(runner: Runner, seconds: float, size: int) -> float:
    """Measure whole repetitions of the phase workload."""
    resized(runner, size)
    before, began_s = delivered(runner), time.perf_counter()
    turns = 0
    while time.perf_counter() - began_s < seconds:
        turns += 1
        wait_for(runner, before + turns * PHASES)
    return (delivered(runner) - before) / (time.perf_counter() - began_s)


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


def on_workers(composition: str, kernel: str, rounds: int, tuples: int) -> Rows:
    """Return hits and distance of each controller on workers, mean and deviation over ``rounds``, by turns."""
    server = Server(composition, {"tuples": tuples, "kernel": kernel, **SMALL})
    setups = [printed_setup(name, THRESHOLDS[0], ITEMIZED_HIT[name][0]) for name in PUBLISHED]
    found: dict[str, list[BundleFigures]] = {}
    for _ in range(rounds):
        for setup in (*setups, Setup(OURS)):
            found.setdefault(setup.controller, []).append(server.controlled(setup, tuples))
    rows = [
        {"controller": name} | {of: _spread([100 * getattr(run, of) for run in runs]) for of in BundleFigures.__slots__}
        for name, runs in found.items()
    ]
    return Rows(f"controllers at {TARGET_MS:g} ms on workers, {rounds} passes of {tuples} tuples each [%]", rows)


def _spread(found: Sequence[float]) -> str:
    return f"{fmean(found):.1f}" + (f" ± {stdev(found):.1f}" if len(found) > 1 else "")


def measure(
    quick: Annotated[bool, "one short round, few sizes"] = False,
    composition: Annotated[str, "of compositions/military_server.yaml"] = "2",
    kernel: Literal["numpy", "compiled", "gpu"] = "compiled",
    controllers: Annotated[bool, "run the batch controllers at 3 ms instead"] = False,
) -> Iterator[Table | Rows]:
    rounds = 1 if quick else 3
    if controllers:
        yield on_workers(composition, kernel, rounds, CONTROLLED)
    else:
        yield throughput(composition, kernel, rounds, 1.0 if quick else 2.5, QUICK_SIZES if quick else SIZES)


if __name__ == "__main__":
    main(measure, ray=True)
