"""Batch controllers at work on the Military Server: a sample of the grid on real workers, its source always full.

    python -m benchmarks.controllers_on_ray [--target-ms 20] [--tuples 60000] [--composition 2] [--kernel numpy]
                                            [--law benchmarks/military_server_law.json] [CONTROLLER …]

Figures are those of Leonarczyk 2024, section 4.3, of the bundles that left whole, from the telemetry of the run; with
``--law`` beside those of the same setups in virtual time.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from apps.military_server.phases import phase_workload, scaled
from benchmarks.harness import metadata
from benchmarks.military_server import Server
from profiler.slo import parse_slo
from profiler.slo_hits import BundleFigures, bundle_figures
from runtime.pools import ray_cluster
from service.bodies.spec import BatchingSpec, TelemetrySpec
from service.experiments.batching.grid import OURS, PUBLISHED, TARGET_MS, Setup, rows_of
from service.experiments.batching.measured import read_law
from service.experiments.batching.plant import Pipeline
from service.experiments.batching.workload import Workload
from service.running.asking.requests import ReadSummary, Start, Stop
from service.running.runner import Runner

THRESHOLD = 0.05
SETTINGS = {
    "pid": {"kp": 10.0, "ki": 15.0, "kd": 3.0, "sample": 1, "most": 300},
    OURS: {"most": 300},
}
"""As advised: PID's gains of table 5.5; else steps of 10 items, decided on every latency (section 5.4)."""
STEPPING = {"step": 10.0, "sample": 1, "most": 300}
UP_S = 540.0


@dataclass(frozen=True)
class Bundles:
    """Those that left, in order."""

    latencies_s: np.ndarray[tuple[int], np.dtype[np.float64]]
    """From the reading of the first item to the delivery of all."""
    sizes: np.ndarray[tuple[int], np.dtype[np.int64]]
    seconds: float

    def figures(self, target_ms: float) -> BundleFigures:
        found = bundle_figures(self.latencies_s, self.sizes, target_ms / 1e3, THRESHOLD)
        assert found is not None, "a run delivers something"
        return found

    @property
    def items_per_s(self) -> float:
        return float(self.sizes.sum() / self.seconds)


def settings_of(controller: str) -> dict[str, float]:
    chosen = dict(SETTINGS.get(controller, STEPPING))
    if controller in PUBLISHED and controller not in ("pid", "pbaf-wt"):
        chosen["threshold"] = THRESHOLD
    return chosen


def bundles_of(table: pa.Table) -> Bundles:
    """Items that left together are a bundle."""
    columns = {name: table[name].cast(pa.int64()).to_numpy() for name in ("serial", "read", "delivered", "batch")}
    order = np.argsort(columns["serial"])
    read, delivered, batch = (columns[name][order] for name in ("read", "delivered", "batch"))
    firsts = np.flatnonzero(np.r_[True, np.diff(delivered) > 0])
    whole = np.diff(np.r_[firsts, len(delivered)]) == batch[firsts]
    firsts = firsts[whole]
    seconds = (delivered[-1] - read[0]) / 1e6
    return Bundles((delivered[firsts] - read[firsts]) / 1e6, batch[firsts], seconds)


def run(server: Server, controller: str, target_ms: float, tuples: int) -> Bundles:
    """One pass over the phase workload."""
    with tempfile.TemporaryDirectory() as folder:
        spec = server.spec(
            batching=BatchingSpec(controller=controller, settings=settings_of(controller)),
            slo=parse_slo(f"latency={target_ms:g}ms"), items=tuples, telemetry=TelemetrySpec(folder=folder),
        )  # fmt: skip
        runner = Runner(spec)
        runner.ask(Start())
        runner.wait(UP_S)
        runner.ask(Stop())
        items = runner.ask(ReadSummary()).items
        if items is None or items.delivered != tuples:
            raise ValueError(f"{controller}: {items}")
        return bundles_of(_items_in(Path(folder)))


def _items_in(folder: Path) -> pa.Table:
    return pa.concat_tables(parquet.read_table(file, partitioning=None) for file in folder.glob("**/items/*.parquet"))


def virtual(controller: str, target_ms: float, tuples: int, pipeline: Pipeline) -> tuple[BundleFigures, float]:
    """The same in virtual time, ``target_ms`` there being 3; with its throughput."""
    told = {name: value for name, value in settings_of(controller).items() if name != "threshold"}
    setup = Setup(controller, tuple(told.items()), THRESHOLD)
    row = rows_of(setup, Workload((), scaled(phase_workload(), tuples)), pipeline)[0]
    return row.figures, row.throughput_per_s * TARGET_MS / target_ms


def told(name: str, figures: BundleFigures, items_per_s: float) -> str:
    values = (figures.batched_hit, figures.itemized_hit, figures.mad_distance)
    return f"  {name:<22}" + "".join(f"{100 * value:>10.1f}" for value in values) + f"{items_per_s:>12.0f}"


def lines(given: argparse.Namespace) -> Iterator[str]:
    yield from (f"{name}: {value}" for name, value in metadata().items())
    yield f"\n{given.tuples} tuples, {given.target_ms:g} ms, {THRESHOLD:.0%}, kernel {given.kernel}"
    yield f"  {'':<22}{'batched':>10}{'itemized':>10}{'MAD':>10}{'items/s':>12}"
    server = Server(given.composition, {"tuples": given.tuples, "kernel": given.kernel})
    pipeline = read_law(given.law, TARGET_MS / given.target_ms) if given.law else None
    for controller in given.controllers:
        found = run(server, controller, given.target_ms, given.tuples)
        yield told(controller, found.figures(given.target_ms), found.items_per_s)
        if pipeline is not None:
            yield told("  in virtual time", *virtual(controller, given.target_ms, given.tuples, pipeline))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("controllers", nargs="*", default=[*PUBLISHED, OURS], metavar="CONTROLLER")
    parser.add_argument("--target-ms", type=float, default=20.0)
    parser.add_argument("--tuples", type=int, default=60_000)
    parser.add_argument("--composition", default="2")
    parser.add_argument("--kernel", default="numpy", choices=["numpy", "compiled", "gpu"])
    parser.add_argument("--law", type=Path, help="a file of benchmarks.military_server, to compare with virtual time")
    ray_cluster.connect()
    try:
        for line in lines(parser.parse_args(arguments)):
            print(line, flush=True)
    finally:
        ray_cluster.shutdown()


if __name__ == "__main__":
    main()
