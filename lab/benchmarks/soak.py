"""Check if a service grows while it runs: memory and descriptors of every process, over an hour or more.

A daemon with real workers serves apps whose items carry arrays, each at a steady rate and under an objective. Every
half minute the memory and the open descriptors of the daemon, the runners, the workers and Ray's own processes are
read: memory of their own (USS), as what is shared counts more or less while other processes come and go. The slopes
are those after the first half hour (histories and windows are full by then).

    python -m lab.benchmarks.soak [--minutes 90] [--rate 35] [--warm-up 30] [--out FILE.csv]
"""

from __future__ import annotations

import csv
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
        return number, np.full(200_000 if size else 1_000_000, number % 250, dtype=np.uint8)

    def find(self, value):
        number, array = value
        return number, int(array[::1000].sum()), array[:100_000]

    def tell(self, value):
        number, found, _ = value
        return {"number": number, "found": found}
"""
Reading = dict[str, tuple[float, float]]
"""MB of memory and number of descriptors, by kind of process; each is the sum over all processes of the kind."""


def read(served: Daemon) -> Reading:
    """Read the daemon and all processes that it started."""
    assert served.process is not None
    status, above = served.status("soaked"), psutil.Process(served.process.pid)
    kinds = {
        above.pid: "daemon",
        status.get("runner_pid"): "runner",
        **{w["pid"]: "workers" for w in status["workers"]},
    }
    found: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for process in [above, *above.children(recursive=True)]:
        try:
            memory, descriptors = process.memory_full_info().uss / 1e6, process.num_fds()
            log_monitor = "log_monitor" in " ".join(process.cmdline())
        except psutil.Error:  # it has ended meanwhile
            continue
        kind = kinds.get(process.pid, "log monitor" if log_monitor else "Ray's own")
        found[kind][0] += memory
        found[kind][1] += descriptors
    return {kind: (memory, descriptors) for kind, (memory, descriptors) in found.items()}


def readings(served: Daemon, minutes: float) -> Iterator[tuple[float, Reading]]:
    began_s = time.monotonic()
    while (at_s := time.monotonic() - began_s) < 60 * minutes:
        yield at_s, read(served)
        time.sleep(EVERY_S)


def slopes(seen: list[tuple[float, Reading]], warm_up_s: float) -> Iterator[dict[str, Any]]:
    """Return how much each kind of process grows per hour, by a least-squares line after the warm-up."""
    late = [(at_s, reading) for at_s, reading in seen if at_s >= warm_up_s]
    for kind in sorted({kind for _, reading in late for kind in reading}):
        rows = [(at_s / 3600, *reading[kind]) for at_s, reading in late if kind in reading]
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
    out: Annotated[Path | None, "CSV file of all readings"] = None,
) -> Iterator[Rows]:
    seen = []
    with tempfile.TemporaryDirectory() as folder:
        apps = Path(folder, "apps")
        apps.mkdir()
        (apps / "soaked.py").write_text(APP)
        with daemon(Path(folder), "--apps", str(apps)) as served:
            served.send("POST", "/apps/soaked/start", {"input": {"rate_per_s": rate}})
            served.send("POST", "/slo", {"app": "soaked", "metric": "latency", "statistic": "p95", "target": 400})
            for at_s, reading in readings(served, minutes):
                seen.append((at_s, reading))
                progress(f"{at_s / 60:6.1f} min  {reading}")
            status = served.status("soaked")
    if out:
        with out.open("w", newline="") as file:
            csv.writer(file).writerows((at_s, kind, *row) for at_s, each in seen for kind, row in each.items())
    yield Rows("growth of processes", list(slopes(seen, 60 * warm_up)))
    yield Rows("the run", [{name: status[name] for name in ("items", "restarts", "switches")}])


if __name__ == "__main__":
    main(measure)
