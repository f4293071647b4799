"""What the page costs, in Chromium, on a daemon with thirty apps and a day of telemetry of each.

First figures on the page, a day drawn, the share of a core that the browser takes while the page is open, and whether
its memory grows. Needs Chromium and its driver (``make browser``).

    python -m benchmarks.dashboard_page [--apps 30] [--hours 24] [--minutes 6]
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import psutil
from selenium import webdriver

from benchmarks.daemon import daemon
from benchmarks.dashboard_load import write_day
from benchmarks.harness import metadata

FIRST_S, DAY_S, CORE = 1.0, 1.5, 0.10
FLAT_MB = 5.0
"""An hour, by the slope of what is in use after the garbage was collected."""
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--enable-precise-memory-info")
LOOK_S = 10.0
LIVE = 900
"""Samples that the page has anyway: more than these are of the range that was asked for."""
WARM_S = 30.0
LOADED = ("-m", "benchmarks.dashboard_load")
DRAWN = """
const [hash, least, done] = arguments, began = performance.now();
const look = () => {
  const d = document.querySelector('.line.output')?.getAttribute('d') ?? '';
  if (d.split('L').length > least) requestAnimationFrame(() => done(performance.now() - began));
  else if (performance.now() - began > 60000) done(null);
  else requestAnimationFrame(look);
};
location.hash = hash;
requestAnimationFrame(look);
"""


@dataclass(frozen=True)
class Measured:
    what: str
    value: float
    unit: str
    limit: float

    @property
    def good(self) -> bool:
        return self.value <= self.limit

    def told(self) -> str:
        verdict = "met" if self.good else "missed"
        return f"{self.what:40} {self.value:8.2f} {self.unit:12} limit {self.limit:g}: {verdict}"


@contextmanager
def chromium() -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for flag in (*FLAGS, "--window-size=1440,900"):
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        yield driver
    finally:
        driver.quit()


def first_s(driver: Any, url: str) -> float:
    """From asking for the page to its first figures."""
    driver.get("about:blank")
    driver.get(url)
    marks = "return performance.getEntriesByName('recompose-first').map((mark) => mark.startTime)"
    until = time.monotonic() + 60
    while not (found := driver.execute_script(marks)):
        if time.monotonic() > until:
            raise TimeoutError(f"no figures on {url} within 60 s")
        time.sleep(0.05)
    return float(found[0]) / 1e3


def drawn_s(driver: Any, url: str, app: str, hours: float) -> float:
    """From asking for a range of ``hours`` on the page of an app to the picture of it."""
    first_s(driver, f"{url}#/app/{app}")
    time.sleep(2)
    now_s = time.time()
    texts = [time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at_s)) for at_s in (now_s - 3600 * hours, now_s)]
    asked = urlencode(dict(zip(("from", "to"), texts, strict=True)))
    took_ms = driver.execute_async_script(DRAWN, f"#/app/{app}?{asked}", LIVE + 300 * min(1.0, hours))
    if took_ms is None:
        raise TimeoutError("the range was not drawn within a minute")
    return float(took_ms) / 1e3


def share_of_core(driver: Any, url: str, seconds: float) -> float:
    """Of the process that runs the page, after its first seconds."""
    first_s(driver, url)
    time.sleep(5)
    browser = psutil.Process(driver.service.process.pid)
    before = dict(_pages(browser))
    time.sleep(seconds)
    return max(cpu_s - before.get(pid, 0.0) for pid, cpu_s in _pages(browser)) / seconds


def _pages(browser: psutil.Process) -> Iterator[tuple[int, float]]:
    """Processes that run pages, and the CPU that each has taken. Those of pages that were left end by themselves."""
    for each in browser.children(recursive=True):
        try:
            if "--type=renderer" in each.cmdline():
                yield each.pid, sum(each.cpu_times()[:2])
        except psutil.NoSuchProcess:
            continue


def growth_mb(driver: Any, url: str, minutes: float) -> tuple[float, float]:
    """Megabytes an hour, by least squares over ``minutes``, and megabytes in use at the end."""
    first_s(driver, url)
    time.sleep(WARM_S)
    times, heaps = [], []
    until = time.monotonic() + 60 * minutes
    while time.monotonic() < until:
        driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
        times.append(time.monotonic() / 3600)
        heaps.append(driver.execute_script("return performance.memory.usedJSHeapSize") / 1e6)
        time.sleep(LOOK_S)
    return statistics.linear_regression(times, heaps).slope, heaps[-1]


def measure(driver: Any, url: str, app: str, hours: float, minutes: float) -> Iterator[Measured]:
    pages = {"overview": url, "page of an app": f"{url}#/app/{app}"}
    for name, place in pages.items():
        took_s = statistics.median(first_s(driver, place) for _ in range(5))
        yield Measured(f"first figures, {name}", took_s, "s", FIRST_S)
    took_s = statistics.median(drawn_s(driver, url, app, hours) for _ in range(3))
    yield Measured(f"{hours:g} h drawn", took_s, "s", DAY_S)
    for name, place in pages.items():
        yield Measured(f"CPU, {name}", share_of_core(driver, place, 30.0), "of a core", CORE)
    for name, place in pages.items():
        slope, last = growth_mb(driver, place, minutes)
        yield Measured(f"memory, {name} ({last:.1f} MB)", slope, "MB an hour", FLAT_MB)


def told(measures: Iterator[Measured]) -> Iterator[Measured]:
    """Each as soon as it is there."""
    for each in measures:
        print(each.told(), flush=True)
        yield each


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--apps", type=int, default=30)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--minutes", type=float, default=6.0, help="for which memory is looked at, on each page")
    asked = parser.parse_args(arguments)
    names = [f"app{number:02d}" for number in range(asked.apps)]
    with tempfile.TemporaryDirectory() as folder:
        files = write_day(Path(folder) / "telemetry", names, asked.hours)
        print(*(f"{name}: {told}" for name, told in metadata().items()), sep="\n")
        print(f"{asked.apps} apps, {files:,} files of telemetry", flush=True)
        with daemon(Path(folder), "--apps", ",".join(names), program=LOADED) as loaded, chromium() as driver:
            driver.set_script_timeout(90)
            url = f"http://127.0.0.1:{loaded.port}/"
            found = list(told(measure(driver, url, names[0], asked.hours, asked.minutes)))
    return 0 if all(each.good for each in found) else 1


if __name__ == "__main__":
    sys.exit(main())
