"""Peers at the work of :mod:`lab.benchmarks.light.work`, each in a process of its own.

    python -m lab.benchmarks.light.peers bytewax light 2000000 --workers 2

Prints one JSON object: the rate, or why there is none. ``pip install 'recompose[peers]'`` installs the peers; they may
also be in a folder that PYTHONPATH names, because they bring other versions of common libraries.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any

from lab.benchmarks.light.work import BUNDLE, STAGES, Check, key_of, plus_one, verify_sums

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class About:
    """A peer's version, or a sentence if it is not installed."""

    there: bool
    text: str


@dataclass(frozen=True)
class Peer:
    """One way to run a peer: ``workers`` in one process."""

    name: str
    work: str = "light"
    workers: int = 1

    def rate_per_s(self, items: int, folder: Path | None) -> float:
        """Raises: RuntimeError with what the peer said if it failed."""
        return float(self._run(items, folder)["rate_per_s"])

    def about(self, folder: Path | None) -> About:
        return About(**self._run(0, folder))

    def _run(self, items: int, folder: Path | None) -> dict[str, Any]:
        paths = [str(folder)] if folder else []
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*paths, str(ROOT)])}
        command = [sys.executable, "-m", "lab.benchmarks.light.peers", self.name, self.work, str(items)]
        command.append(f"--workers={self.workers}")
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{self.name} ended with {done.returncode}: {done.stderr[-2000:]}")
        told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return told


def installed(peers: Mapping[str, Peer], folder: Path | None) -> tuple[dict[str, Peer], dict[str, str]]:
    """Return the peers that are installed, and a line of metadata about all of them."""
    about = {peer.name: peer.about(folder) for peer in peers.values()}
    there = {name: peer for name, peer in peers.items() if about[peer.name].there}
    return there, {"peers": "; ".join(each.text for each in about.values())}


# --- in the peer's process --------------------------------------------------------------------------------------------


def bytewax_light(items: int, workers: int) -> float:
    """Four maps, and a sink that sums. One worker runs in this thread."""
    check = Check()

    def add_maps(op: Any, stream: Any) -> Any:
        for number in range(STAGES):
            stream = op.map(f"s{number}", stream, plus_one)
        return stream

    took_s = _bytewax_s(items, workers, add_maps, check.take)
    if workers > 1:
        check.misplaced = 0  # two sources, two sinks: there is no order to keep
    check.verify(items, "bytewax")
    return items / took_s


def bytewax_keyed(items: int, workers: int) -> float:
    """A key, which must be text here, and a map with a state. One worker."""
    sums: dict[str, int] = {}

    def total(state: int | None, value: int) -> tuple[int, int]:
        state = (state or 0) + value
        return state, state

    def add_sums(op: Any, stream: Any) -> Any:
        return op.stateful_map("total", op.key_on("key", stream, lambda value: str(key_of(value))), total)

    took_s = _bytewax_s(items, workers, add_sums, sums.update)
    verify_sums({int(key): total for key, total in sums.items()}, items, "bytewax")
    return items / took_s


def _bytewax_s(
    items: int, workers: int, build: Callable[[Any, Any], Any], write: Callable[[list[Any]], object]
) -> float:
    """Return the seconds of a flow whose source gives bundles of 512 and whose sink calls ``write``."""
    from bytewax import operators as op
    from bytewax.dataflow import Dataflow
    from bytewax.inputs import DynamicSource, StatelessSourcePartition
    from bytewax.outputs import DynamicSink, StatelessSinkPartition
    from bytewax.testing import cluster_main, run_main

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

    class Writing(StatelessSinkPartition[Any]):
        def write_batch(self, items: list[Any]) -> None:
            write(items)

    class Sink(DynamicSink[Any]):
        def build(self, step_id: str, worker_index: int, worker_count: int) -> Writing:
            return Writing()

    flow = Dataflow("numbers")
    op.output("out", build(op, op.input("in", flow, Source())), Sink())
    began_s = perf_counter()
    if workers == 1:
        run_main(flow)
    else:
        cluster_main(flow, [], 0, worker_count_per_proc=workers)
    return perf_counter() - began_s


def pathway_light(items: int, workers: int) -> float:
    """Four columns by a Python function each, and a callback that sums."""
    check = Check()

    def add_columns(pw: Any, table: Any) -> Any:
        for _ in range(STAGES):
            table = table.select(value=pw.apply_with_type(plus_one, int, pw.this.value))
        return table

    def on_change(key: Any, row: dict[str, int], time: int, is_addition: bool) -> None:
        check.items += 1
        check.total += row["value"]

    took_s = _pathway_s(items, lambda value: {"value": value}, add_columns, on_change)
    check.verify(items, "pathway")
    return items / took_s


def pathway_keyed(items: int, workers: int) -> float:
    """Groups by a column, and their sums; a callback gets those that changed. It reports a key once per commit, not
    once per item, which is less work."""
    sums: dict[int, int] = {}

    def add_sums(pw: Any, table: Any) -> Any:
        return table.groupby(pw.this.key).reduce(pw.this.key, total=pw.reducers.sum(pw.this.value))

    def on_change(key: Any, row: dict[str, int], time: int, is_addition: bool) -> None:
        if is_addition:
            sums[row["key"]] = row["total"]

    took_s = _pathway_s(items, lambda value: {"key": key_of(value), "value": value}, add_sums, on_change)
    verify_sums(sums, items, "pathway")
    return items / took_s


def _pathway_s(
    items: int, row: Callable[[int], dict[str, int]], build: Callable[[Any, Any], Any], on_change: Callable[..., None]
) -> float:
    """Return the seconds of a flow from a Python connector to a callback. Starting up is included: Pathway does not
    report when it has started, and delivers all at the end."""
    import pathway as pw

    class Numbers(pw.io.python.ConnectorSubject):
        def run(self) -> None:
            for value in range(items):
                self.next(**row(value))

    schema = pw.schema_from_types(**dict.fromkeys(row(0), int))
    pw.io.subscribe(build(pw, pw.io.python.read(Numbers(), schema=schema)), on_change)
    began_s = perf_counter()
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    return perf_counter() - began_s


PEERS: dict[tuple[str, str], Callable[[int, int], float]] = {
    ("bytewax", "light"): bytewax_light,
    ("bytewax", "keyed"): bytewax_keyed,
    ("pathway", "light"): pathway_light,
    ("pathway", "keyed"): pathway_keyed,
}
"""By name and work; each gets items and workers, and returns items per second."""


def about(peer: str) -> About:
    """Describe a peer that may be installed or not; never an error."""
    if find_spec(peer) is None:
        return About(False, f"{peer} is not installed: pip install 'recompose[peers]'")
    return About(True, f"{peer} {version(peer)}")


def serve() -> None:
    """Run as the program of a peer's process."""
    parser = argparse.ArgumentParser(description="One peer, by itself.")
    parser.add_argument("peer", choices=sorted({peer for peer, _ in PEERS}))
    parser.add_argument("work", choices=["light", "keyed"])
    parser.add_argument("items", type=int, help="0: only say whether it is installed")
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    if given.items:
        rate_per_s = PEERS[given.peer, given.work](given.items, given.workers)
        print(json.dumps({"rate_per_s": rate_per_s}))
    else:
        print(json.dumps(asdict(about(given.peer))))


if __name__ == "__main__":
    serve()
