"""What the page costs, in Chromium, on a daemon with thirty apps and a day of telemetry of each.

First figures on the page, a day drawn, and the share of a core that the browser takes while the page is open. Whether
its memory grows: ``benchmarks.dashboard_memory``.

    python -m benchmarks.dashboard_page [--apps 30] [--hours 24]
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

import psutil

from benchmarks.dashboard_load import write_day
from benchmarks.dashboard_open import Opened, app_names, opened, options

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


def drawn_s(page: Opened, hours: float) -> float:
    """From asking for a range of ``hours`` on the page of an app to the picture of it."""
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
    """Of the process that runs the page, after its first seconds."""
    page.first_s(url)
    time.sleep(5)
    browser = psutil.Process(page.driver.service.process.pid)
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


def measure(page: Opened, hours: float) -> Iterator[Measured]:
    for name, url in page.pages.items():
        took_s = statistics.median(page.first_s(url) for _ in range(5))
        yield Measured(f"first figures, {name}", took_s, "s", FIRST_S)
    took_s = statistics.median(drawn_s(page, hours) for _ in range(3))
    yield Measured(f"{hours:g} h drawn", took_s, "s", DAY_S)
    for name, url in page.pages.items():
        yield Measured(f"CPU, {name}", share_of_core(page, url, 30.0), "of a core", CORE)


def told(measures: Iterator[Measured]) -> Iterator[Measured]:
    """Each as soon as it is there."""
    for each in measures:
        print(each.told(), flush=True)
        yield each


def main(arguments: Sequence[str] | None = None) -> int:
    parser = options(__doc__)
    parser.add_argument("--hours", type=float, default=24.0)
    asked = parser.parse_args(arguments)
    names = app_names(asked.apps)
    with tempfile.TemporaryDirectory() as folder:
        files = write_day(Path(folder) / "telemetry", names, asked.hours)
        print(f"{asked.apps} apps, {files:,} files of telemetry", flush=True)
        with opened(Path(folder), names) as page:
            found = list(told(measure(page, asked.hours)))
    return 0 if all(each.good for each in found) else 1


if __name__ == "__main__":
    sys.exit(main())
