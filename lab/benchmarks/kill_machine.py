"""Kill machines of the cluster under load, with most of the workers: count results and measure the longest gap.

The machines are Ray nodes on this host, each with a raylet of its own; what dies with one is the raylet and every
process that it started, by SIGKILL. The runner and one machine are left. Ray itself needs twelve seconds to notice.

python -m lab.benchmarks.kill_machine [--seconds 20] [--machines 2] [--json]
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import psutil
from ray.cluster_utils import Cluster

from lab.benchmarks.harness import metadata
from lab.benchmarks.kill_workers import Killing, judged, runner_of, wait_until_up
from runtime.pools.ray import cluster as ray_cluster
from service.runner.rpc.requests import ReadStatus, ResetGaps, Start, Stop
from service.runner.runner import Runner

STEADY_S = 2.0
MEMORY_BYTES = 100 * 2**20


def run(seconds: float, machines: int, out_path: str) -> tuple[Killing, int, int]:
    """``machines`` are lost at once. Returns what came of it, and how many of how many workers were on them."""
    with ExitStack() as closing:
        cluster = Cluster()
        closing.callback(cluster.shutdown)
        cluster.add_node(num_cpus=1, include_dashboard=False, object_store_memory=MEMORY_BYTES)
        far = [cluster.add_node(num_cpus=1, object_store_memory=MEMORY_BYTES) for _ in range(machines)]
        ray_cluster.connect(cluster.address)
        closing.callback(ray_cluster.shutdown)
        runner = runner_of(out_path)
        runner.ask(Start())
        try:
            wait_until_up(runner)
            lost, all_of_them = _lose(runner, [each.all_processes["raylet"][0].process.pid for each in far])
            time.sleep(seconds)
            status = runner.ask(ReadStatus())
        finally:
            runner.ask(Stop())
        assert status.changes.output_gap_ms is not None
        gap_s = (status.changes.output_gap_ms.max or 0.0) / 1e3
        return judged(runner, out_path, machines, status.health.restarts or 0, gap_s), lost, all_of_them


def _lose(runner: Runner, raylets: Sequence[int]) -> tuple[int, int]:
    time.sleep(STEADY_S)
    runner.ask(ResetGaps())
    family = [each.pid for raylet in raylets for each in psutil.Process(raylet).children(recursive=True)]
    workers = [worker.pid for worker in runner.ask(ReadStatus()).workers]
    for pid in (*raylets, *family):
        _kill(pid)
    return len(set(workers) & set(family)), len(workers)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:  # it went with its raylet
        return


@click.command()
@click.option("--seconds", default=20.0, help="after the loss")
@click.option("--machines", default=2, help="that are lost; one more is left")
@click.option("--json", "as_json", is_flag=True)
def main(seconds: float, machines: int, as_json: bool) -> None:
    """Prints what a run that loses machines came to."""
    with tempfile.TemporaryDirectory(prefix="rc") as folder:  # a short name: sockets are in it
        os.environ["RAY_TMPDIR"] = folder
        seen, lost, all_of_them = run(seconds, machines, str(Path(folder) / "results.jsonl"))
    figures: dict[str, Any] = {**metadata(), **asdict(seen), "workers_lost": lost, "workers": all_of_them}
    write: Callable[[str], object] = sys.stdout.write
    write(json.dumps(figures, indent=1) if as_json else "".join(f"{name}: {each}\n" for name, each in figures.items()))


if __name__ == "__main__":
    main()
