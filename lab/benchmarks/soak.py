"""Check if a service grows while it runs: memory and descriptors of every process, over an hour or more.

A daemon with real workers serves apps whose items carry arrays, each at a steady rate and under an objective. Every
half minute, it reads memory and open descriptors of the daemon, the runners, the workers and Ray's own processes:
anonymous memory, because the share of file pages depends on other processes, and also the resident memory (RSS). The
slopes exclude the first half hour, after which histories and windows are full.

    python -m lab.benchmarks.soak [--minutes 90] [--rate 35] [--warm-up 30] [--size 200000] [--out FILE.csv]
"""

from __future__ import annotations

import csv
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import psutil

from lab.benchmarks.daemon import Daemon, daemon
from lab.benchmarks.harness import Rows, main, progress

EVERY_S = 30.0
APP = """
import numpy as np
from apps.contract import App, Stage

class Soaked(App):
    name = "soaked"
    stages = (Stage("read"), Stage("find"), Stage("tell"))

    def items(self, path):
        return ((number, number % 5) for number in range(10**9))

    def read(self, value):
        number, size = value
        return number, np.full(SIZE if size else 5 * SIZE, number % 250, dtype=np.uint8)

    def find(self, value):
        number, array = value
        return number, int(array[::1000].sum()), array[: SIZE // 2]

    def tell(self, value):
        number, found, _ = value
        return {"number": number, "found": found}
"""
Reading = dict[str, list[float]]
"""MB of own memory, number of descriptors, MB of resident memory and number of processes: sums by kind of process."""


def read(served: Daemon) -> Reading:
    """Read the daemon and all processes that it started."""
    assert served.process is not None
    status, above = served.status("soaked"), psutil.Process(served.process.pid)
    kinds = {
        above.pid: "daemon",
        status.get("runner_pid"): "runner",
        **{w["pid"]: "workers" for w in status["workers"]},
    }
    found: defaultdict[str, list[float]] = defaultdict(lambda: [0.0] * 4)
    for process in [above, *above.children(recursive=True)]:
        try:
            memory, descriptors = process.memory_info(), process.num_fds()
            log_monitor = "log_monitor" in " ".join(process.cmdline())
        except psutil.Error:  # the process has ended meanwhile
            continue
        kind = kinds.get(process.pid, "log monitor" if log_monitor else "Ray's own")
        for place, more in enumerate(((memory.rss - memory.shared) / 1e6, descriptors, memory.rss / 1e6, 1)):
            found[kind][place] += more
    return dict(found)


def readings(served: Daemon, minutes: float) -> Iterator[tuple[float, Reading]]:
    began_s = time.monotonic()
    while (at_s := time.monotonic() - began_s) < 60 * minutes:
        yield at_s, read(served)
        time.sleep(EVERY_S)


def slopes(seen: list[tuple[float, Reading]], warm_up_s: float) -> Iterator[dict[str, Any]]:
    """Return how much each kind of process grows per hour, by a least-squares line after the warm-up."""
    late = [(at_s, reading) for at_s, reading in seen if at_s >= warm_up_s]
    for kind in sorted({kind for _, reading in late for kind in reading}):
        rows = [(at_s / 3600, *reading[kind][:2]) for at_s, reading in late if kind in reading]
        if len(rows) < 3:
            continue
        hours, memory, descriptors = np.array(rows).T
        grows, opens = np.polyfit(hours, memory, 1)[0], np.polyfit(hours, descriptors, 1)[0]
        yield {
            "processes": kind, "MB": float(memory[-1]), "MB/h": float(grows), "descriptors": float(descriptors[-1]),
            "descriptors/h": float(opens),
        }  # fmt: skip


def measure(
    minutes: float = 90.0,
    warm_up: Annotated[float, "minutes that do not count"] = 30.0,
    rate: Annotated[float, "items/s"] = 35.0,
    size: Annotated[int, "bytes of an item; each fifth has five times as many"] = 200_000,
    out: Annotated[Path | None, "CSV file of all readings, written as they are taken"] = None,
) -> Iterator[Rows]:
    seen = []
    with (out or Path(os.devnull)).open("w", newline="") as file, tempfile.TemporaryDirectory() as folder:
        apps = Path(folder, "apps")
        apps.mkdir()
        (apps / "soaked.py").write_text(APP.replace("SIZE", str(size)))
        with daemon(Path(folder), "--apps", str(apps)) as served:
            served.send("POST", "/apps/soaked/start", {"input": {"rate_per_s": rate}})
            served.send("POST", "/slo", {"app": "soaked", "metric": "latency", "statistic": "p95", "target": 400})
            for at_s, reading in readings(served, minutes):
                seen.append((at_s, reading))
                csv.writer(file).writerows((at_s, kind, *row) for kind, row in reading.items())
                file.flush()
                progress(f"{at_s / 60:6.1f} min  {reading}")
            status = served.status("soaked")
    yield Rows("growth of processes", list(slopes(seen, 60 * warm_up)))
    yield Rows("the run", [{name: status[name] for name in ("items", "restarts", "switches")}])


if __name__ == "__main__":
    main(measure)
