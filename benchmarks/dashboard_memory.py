"""Whether the page grows while it is open, at an accelerated pace: slope of the heap after garbage is collected, and
how many nodes and listeners there are.

A daemon with thirty apps tells ``--pace`` times as many statuses a second, of a clock that goes as much faster, and the
page's own clock does too: it draws as often for each status as ever. Needs Chromium and its driver (``make browser``).

    python -m benchmarks.dashboard_memory [--pace 10] [--hours 0.5] [--apps 30]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.daemon import daemon
from benchmarks.dashboard_page import FLAT_MB, LOADED, chromium, first_s
from benchmarks.harness import metadata

FAST = "const now = performance.now.bind(performance); performance.now = () => now() * {pace}"
COUNTED = "window.heard = 0; const parse = JSON.parse; JSON.parse = (text) => (window.heard++, parse(text))"
FULL_S = 330.0
"""Of the page's clock: by then it has all the samples that it keeps."""
LOOKS = 24
PER_S = 4.0


@dataclass(frozen=True)
class Look:
    hour: float
    """Of the page's clock, by the statuses that it has heard."""
    heap_mb: float
    nodes: int
    listeners: int


def looked(driver: Any) -> Look:
    """After the garbage was collected, what is detached included in nodes and listeners."""
    for _ in range(2):
        driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
    counts = driver.execute_cdp_cmd("Memory.getDOMCounters", {})
    heap = driver.execute_script("return performance.memory.usedJSHeapSize")
    return Look(heard_s(driver) / 3600, heap / 1e6, counts["nodes"], counts["jsEventListeners"])


def heard_s(driver: Any) -> float:
    """Seconds of the page's clock, by the statuses that it has heard: a busy machine has fewer of them."""
    return float(driver.execute_script("return heard")) / PER_S


def looks(driver: Any, url: str, pace: float, hours: float) -> list[Look]:
    first_s(driver, url)
    while heard_s(driver) < FULL_S:
        time.sleep(1.0)
    found = []
    for _ in range(LOOKS):
        found.append(looked(driver))
        time.sleep(3600 * hours / pace / LOOKS)
    return found


def slope_mb(found: Sequence[Look]) -> tuple[float, float]:
    """Megabytes an hour by least squares, and the standard error of that."""
    hours, heaps = [each.hour for each in found], [each.heap_mb for each in found]
    line = statistics.linear_regression(hours, heaps)
    rests = [heap - line.intercept - line.slope * hour for hour, heap in zip(hours, heaps, strict=True)]
    spread = sum((hour - statistics.mean(hours)) ** 2 for hour in hours)
    return line.slope, (sum(rest**2 for rest in rests) / (len(found) - 2) / spread) ** 0.5


def told(name: str, found: Sequence[Look]) -> bool:
    slope, error = slope_mb(found)
    first, last = found[0], found[-1]
    print(f"{name}: {last.hour - first.hour:.2f} h of statuses; heap {first.heap_mb:.1f} to {last.heap_mb:.1f} MB, "
          f"{slope:+.2f} ± {error:.2f} MB an hour (limit {FLAT_MB:g}); nodes {first.nodes} to {last.nodes}, "
          f"listeners {first.listeners} to {last.listeners}", flush=True)  # fmt: skip
    return slope <= FLAT_MB


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--apps", type=int, default=30)
    parser.add_argument("--pace", type=float, default=10.0)
    parser.add_argument("--hours", type=float, default=0.5, help="of the page's clock, on each page")
    asked = parser.parse_args(arguments)
    names = [f"app{number:02d}" for number in range(asked.apps)]
    print(*(f"{name}: {value}" for name, value in metadata().items()), sep="\n")
    program = ("--apps", ",".join(names), "--pace", str(asked.pace))
    with (
        tempfile.TemporaryDirectory() as folder,
        daemon(Path(folder), *program, program=LOADED) as loaded,
        chromium() as driver,
    ):
        for script in (COUNTED, FAST.format(pace=asked.pace)):
            driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": script})
        url = f"http://127.0.0.1:{loaded.port}/"
        places = {"overview": url, "page of an app": f"{url}#/app/{names[0]}"}
        good = [told(name, looks(driver, place, asked.pace, asked.hours)) for name, place in places.items()]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
