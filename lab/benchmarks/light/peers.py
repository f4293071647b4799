"""Peers that a user may have instead, each in a process of its own: nothing of ours runs beside it.

    python -m lab.benchmarks.light.peers bytewax 2000000 --workers 2

Prints one JSON object: the rate, or why there is none. ``pip install 'recompose[peers]'`` installs them; they may also
lie in a folder of their own that PYTHONPATH names, for they bring other versions of common libraries.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any

from lab.benchmarks.light.work import BUNDLE, STAGES, Check, Merged, plus_one

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class About:
    """Whether a peer is there, and its version, or a sentence."""

    there: bool
    text: str


@dataclass(frozen=True)
class Peer:
    """One way to run a peer: ``workers`` in one process (of a process pool: processes)."""

    name: str
    workers: int = 1
    loops: int = 0
    module: str = "lab.benchmarks.light.peers"
    """Where its work is, run as a program."""

    def rate_per_s(self, items: int, folder: Path | None) -> float:
        """Raises: RuntimeError with what the peer said when it did not get through."""
        return float(self._run(items, folder)["rate_per_s"])

    def about(self, folder: Path | None) -> About:
        return About(**self._run(0, folder))

    def _run(self, items: int, folder: Path | None) -> dict[str, Any]:
        paths = [str(folder)] if folder else []
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*paths, str(ROOT)])}
        options = [f"--workers={self.workers}", f"--loops={self.loops}"]
        command = [sys.executable, "-m", self.module, self.name, str(items), *options]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{self.name} ended with {done.returncode}: {done.stderr[-2000:]}")
        told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return told


# --- in the peer's process --------------------------------------------------------------------------------------------


def bytewax(items: int, workers: int, loops: int) -> float:
    """A source that gives bundles of 512, four maps, a sink that sums. One worker runs in this thread."""
    from bytewax import operators as op
    from bytewax.dataflow import Dataflow
    from bytewax.inputs import DynamicSource, StatelessSourcePartition
    from bytewax.outputs import DynamicSink, StatelessSinkPartition
    from bytewax.testing import cluster_main, run_main

    check = Check()

    class Numbers(StatelessSourcePartition[int]):
        def __init__(self, first: int, step: int) -> None:
            self._values = iter(range(first, items, step))

        def next_batch(self) -> list[int]:
            if batch := list(islice(self._values, BUNDLE)):
                return batch
            raise StopIteration

    class Source(DynamicSource[int]):
        def build(self, step_id: str, worker_index: int, worker_count: int) -> Numbers:
            return Numbers(worker_index, worker_count)

    class Summing(StatelessSinkPartition[int]):
        def write_batch(self, items: list[int]) -> None:
            check.take(items)

    class Sink(DynamicSink[int]):
        def build(self, step_id: str, worker_index: int, worker_count: int) -> Summing:
            return Summing()

    flow = Dataflow("light")
    stream = op.input("in", flow, Source())
    for number in range(STAGES):
        stream = op.map(f"s{number}", stream, plus_one)
    op.output("out", stream, Sink())
    began_s = perf_counter()
    if workers == 1:
        run_main(flow)
    else:
        cluster_main(flow, [], 0, worker_count_per_proc=workers)
        check.misplaced = 0  # two sources, two sinks: there is no order to keep
    took_s = perf_counter() - began_s
    check.verify(items, "bytewax")
    return items / took_s


def pathway(items: int, workers: int, loops: int) -> float:
    """A Python connector, four columns by a Python function each, a callback that sums. Starting up included: it tells
    nobody when that is over, and delivers all at the end."""
    import pathway as pw

    check = Check()

    class Numbers(pw.io.python.ConnectorSubject):
        def run(self) -> None:
            for value in range(items):
                self.next(value=value)

    class Schema(pw.Schema):
        value: int

    def on_change(key: Any, row: dict[str, int], time: int, is_addition: bool) -> None:
        check.items += 1
        check.total += row["value"]

    table = pw.io.python.read(Numbers(), schema=Schema)
    for _ in range(STAGES):
        table = table.select(value=pw.apply_with_type(plus_one, int, pw.this.value))
    pw.io.subscribe(table, on_change)
    began_s = perf_counter()
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    took_s = perf_counter() - began_s
    check.verify(items, "pathway")
    return items / took_s


def multiprocessing(items: int, workers: int, loops: int) -> float:
    """``imap`` of all four stages as one function, in chunks of 512."""
    from multiprocessing import get_context

    check = Check()
    with get_context("spawn").Pool(workers) as pool:
        pool.map(plus_one, range(8))
        began_s = perf_counter()
        results = pool.imap(Merged(loops), range(items), chunksize=BUNDLE)
        for bundle in _bundles(results):
            check.take(bundle)
        took_s = perf_counter() - began_s
    check.verify(items, "multiprocessing")
    return items / took_s


def _bundles(values: Iterator[int]) -> Iterator[list[int]]:
    while bundle := list(islice(values, BUNDLE)):
        yield bundle


Work = Callable[[int, int, int], float]
"""Items, workers and loops; returns items per second."""
PEERS: dict[str, Work] = {
    "bytewax": bytewax,
    "pathway": pathway,
    "multiprocessing": multiprocessing,
}


def about(peer: str) -> About:
    """Of one that may be installed or not; never an error."""
    if find_spec(peer) is None:
        return About(False, f"{peer} is not installed: pip install 'recompose[peers]'")
    number = version(peer) if peer in ("bytewax", "pathway") else f"of Python {platform.python_version()}"
    return About(True, f"{peer} {number}")


def serve(peers: Mapping[str, Work]) -> None:
    """The program of a peer's process."""
    parser = argparse.ArgumentParser(description="One peer, by itself.")
    parser.add_argument("peer", choices=peers)
    parser.add_argument("items", type=int, help="0: only say whether it is installed")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--loops", type=int, default=0, help="of work in the second stage, for multiprocessing")
    given = parser.parse_args()
    if given.items:
        print(json.dumps({"rate_per_s": peers[given.peer](given.items, given.workers, given.loops)}))
    else:
        print(json.dumps(asdict(about(given.peer))))


if __name__ == "__main__":
    serve(PEERS)
