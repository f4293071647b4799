"""Measure the cost of the page in Chromium, on a daemon with thirty apps and a day of telemetry for each.

It measures the time to the first figures on the page, the time to draw a day, and the share of a core that the browser
takes while the page is open. Needs Chromium and its driver (``make browser``).

    python -m lab.benchmarks.dashboard_page [--apps 30] [--hours 24] [--json]
"""

from __future__ import annotations

import shutil
import statistics
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

from lab.benchmarks.daemon import daemon
from lab.benchmarks.dashboard_load import write_day
from lab.benchmarks.harness import Rows, main, progress

FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--enable-precise-memory-info")
LOADED = ("-m", "lab.benchmarks.dashboard_load")
FIRST_FIGURES = "return performance.getEntriesByName('recompose-first').map((mark) => mark.startTime)"


@dataclass(frozen=True)
class Opened:
    driver: Any
    overview: str
    names: list[str]

    @property
    def of_app(self) -> str:
        return f"{self.overview}#/app/{self.names[0]}"

    @property
    def pages(self) -> dict[str, str]:
        return {"overview": self.overview, "page of an app": self.of_app}

    def first_s(self, url: str) -> float:
        """Return the time from the request for the page to its first figures."""
        self.driver.get("about:blank")
        self.driver.get(url)
        until = time.monotonic() + 60
        while not (found := self.driver.execute_script(FIRST_FIGURES)):
            if time.monotonic() > until:
                raise TimeoutError(f"no figures on {url} within 60 s")
            time.sleep(0.05)
        return float(found[0]) / 1e3


@contextmanager
def opened(folder: Path, names: Sequence[str]) -> Iterator[Opened]:
    with (
        daemon(folder, "--apps", ",".join(names), program=LOADED) as loaded,
        _chromium() as driver,
    ):
        driver.set_script_timeout(90)
        yield Opened(driver, f"http://127.0.0.1:{loaded.port}/", list(names))


@contextmanager
def _chromium() -> Iterator[Any]:
    chosen = webdriver.ChromeOptions()
    chosen.binary_location = str(shutil.which("chromium"))
    for flag in (*FLAGS, "--window-size=1440,900"):
        chosen.add_argument(flag)
    driver = webdriver.Chrome(options=chosen, service=webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        yield driver
    finally:
        driver.quit()


FIRST_S, DAY_S, CORE = 1.0, 1.5, 0.10
LIVE = 900
"""Samples that the page has anyway: more than these are of the range that was asked for."""
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


def drawn_s(page: Opened, hours: float) -> float:
    """Return the time from the request for a range of ``hours`` on the page of an app to its picture."""
    page.first_s(page.of_app)
    time.sleep(2)
    now_s = time.time()
    texts = [time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at_s)) for at_s in (now_s - 3600 * hours, now_s)]
    asked = urlencode(dict(zip(("from", "to"), texts, strict=True)))
    took_ms = page.driver.execute_async_script(DRAWN, f"#/app/{page.names[0]}?{asked}", LIVE + 300 * min(1.0, hours))
    if took_ms is None:
        raise TimeoutError("the range was not drawn within a minute")
    return float(took_ms) / 1e3


def share_of_core(page: Opened, url: str, seconds: float) -> float:
    """Return the share of a core that the page's process uses after its first seconds."""
    page.first_s(url)
    time.sleep(5)
    browser = psutil.Process(page.driver.service.process.pid)
    before = dict(_pages(browser))
    time.sleep(seconds)
    return max(cpu_s - before.get(pid, 0.0) for pid, cpu_s in _pages(browser)) / seconds


def _pages(browser: psutil.Process) -> Iterator[tuple[int, float]]:
    """Yield processes that run pages, and the CPU that each has used. Those of abandoned pages end by themselves."""
    for each in browser.children(recursive=True):
        try:
            if "--type=renderer" in each.cmdline():
                yield each.pid, sum(each.cpu_times()[:2])
        except psutil.NoSuchProcess:
            continue


def figures(page: Opened, hours: float) -> Iterator[tuple[str, float, str, float]]:
    """Yield each figure with its unit and limit."""
    for name, url in page.pages.items():
        yield f"first figures, {name}", statistics.median(page.first_s(url) for _ in range(5)), "s", FIRST_S
    yield f"{hours:g} h drawn", statistics.median(drawn_s(page, hours) for _ in range(3)), "s", DAY_S
    for name, url in page.pages.items():
        yield f"CPU, {name}", share_of_core(page, url, 30.0), "of a core", CORE


def measure(apps: int = 30, hours: float = 24.0) -> Iterator[Rows]:
    names = [f"app{number:02d}" for number in range(apps)]
    with tempfile.TemporaryDirectory() as folder:
        files = write_day(Path(folder) / "telemetry", names, hours)
        progress(f"{apps} apps, {files:,} files of telemetry")
        with opened(Path(folder), names) as page:
            found = list(figures(page, hours))
    rows = [dict(zip(("figure", "value", "unit", "limit"), each, strict=True)) for each in found]
    yield Rows(f"the page with {apps} apps", rows, {name: value <= limit for name, value, _, limit in found})


if __name__ == "__main__":
    main(measure)
