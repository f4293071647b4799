"""One live driver of four empty stages for ``lab/benchmarks/hop_paired.py``: commands in, figures out, a line each.

Run by path with another state of the project as ``PYTHONPATH``: it names only what those states have as well.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter, thread_time

from compositions.model import all_sequential
from lab.benchmarks.contenders import Recompose, rate_per_s
from lab.benchmarks.workloads import SMALL, Empty


def cpu_s(pids: list[int]) -> float:
    """CPU seconds of this thread and of the workers' first ones, in which stages run; 0.0 where the system does not
    tell."""
    try:
        workers = [int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9 for pid in pids]
    except OSError:
        return 0.0
    return thread_time() + sum(workers)


def pin(pids: list[int], core: int) -> None:
    for pid in (os.getpid(), *pids):
        for thread in os.listdir(f"/proc/{pid}/task"):
            os.sched_setaffinity(int(thread), {core})


def one_by_one(driver: Recompose, items: int) -> float:
    """Median seconds of an item by itself."""
    times = []
    for _ in range(items):
        began_s = perf_counter()
        driver.one(SMALL)
        times.append(perf_counter() - began_s)
    return sorted(times)[items // 2]


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what Ray and workers print is none of ours
    ray_cluster = import_module(f"runtime.pools.ray{'.' if find_spec('runtime.pools.ray') else '_'}cluster")
    ray_cluster.connect()
    driver = Recompose(Empty, Empty.stages, all_sequential(Empty.stages))
    pids = [worker.pid for worker in driver._engine.view().workers]
    if len(sys.argv) > 1:
        pin(pids, int(sys.argv[1]))
    one_by_one(driver, 300)
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        kind, items = line.split()[0], int(line.split()[1])
        before_s = cpu_s(pids)
        figure = one_by_one(driver, items) * 1e3 if kind == "one" else rate_per_s(driver, [SMALL] * items)
        told = {"figure": figure, "cpu_us": (cpu_s(pids) - before_s) / items * 1e6}
        print(json.dumps(told), file=answers, flush=True)
    driver.close()
    ray_cluster.shutdown()


if __name__ == "__main__":
    main()
