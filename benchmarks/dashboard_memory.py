"""Whether the page grows while it is open, at an accelerated pace: its heap after garbage is collected, nodes and
listeners, what is detached included.

A daemon with thirty apps tells ``--pace`` times as many statuses a second, of a clock that goes as much faster, and the
page's own clock does too: it draws as often for each status as ever. At each look the stream is held back until what
has come is drawn, and the least of three is taken: what has just been read and not yet parsed is not what is kept.

    python -m benchmarks.dashboard_memory [--pace 10] [--hours 0.5] [--apps 30] [--page overview]
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.dashboard_open import Opened, app_names, opened, options

FLAT_MB = 1.0
"""An hour."""
FAST = "const now = performance.now.bind(performance); performance.now = () => now() * {pace}"
HELD = """
let [passing, pass] = [Promise.resolve(), () => {}];
const [parse, ask] = [JSON.parse, fetch];
window.heard = 0;
JSON.parse = (text) => (window.heard++, parse(text));
window.hold = () => (passing = new Promise((done) => (pass = done)));
window.letGo = () => pass();
window.fetch = async (path, options) => {
  const answer = await ask(path, options);
  if (!String(path).endsWith("stream")) return answer;
  const gate = new TransformStream({ transform: (chunk, to) => passing.then(() => to.enqueue(chunk)) });
  return new Response(answer.body.pipeThrough(gate), answer);
};
"""
"""Counts statuses, and lets them through only while they are not held."""
DRAWN = "const done = arguments[0]; setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(done)), 300)"
FULL_S = 930.0
"""Of the page's clock: by then it has all the samples that it keeps, and none of those that it was given at first."""
LOOKS = 16
EACH = 3
PER_S = 4.0


@dataclass(frozen=True)
class Look:
    hour: float
    """Of the page's clock, by the statuses that it has heard."""
    heap_mb: float
    nodes: float
    listeners: float


def looked(driver: Any) -> Look:
    return min((_looked(driver) for _ in range(EACH)), key=lambda look: look.heap_mb)


def _looked(driver: Any) -> Look:
    driver.execute_script("hold()")
    driver.execute_async_script(DRAWN)
    for _ in range(2):
        driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
    told = driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    counts = {each["name"]: each["value"] for each in told}
    hour = heard_s(driver) / 3600
    driver.execute_script("letGo()")
    return Look(hour, counts["JSHeapUsedSize"] / 1e6, counts["Nodes"], counts["JSEventListeners"])


def heard_s(driver: Any) -> float:
    """Seconds of the page's clock, by the statuses that it has heard: a busy machine has fewer of them."""
    return float(driver.execute_script("return heard")) / PER_S


def looks(page: Opened, url: str, pace: float, hours: float) -> list[Look]:
    page.first_s(url)
    while heard_s(page.driver) < FULL_S:
        time.sleep(1.0)
    found = []
    for _ in range(LOOKS):
        found.append(looked(page.driver))
        time.sleep(3600 * hours / pace / LOOKS)
    return found


def slope(found: Sequence[Look], of: Callable[[Look], float]) -> tuple[float, float]:
    """Of ``of`` an hour, by least squares, and the standard error of that."""
    hours, values = [each.hour for each in found], [of(each) for each in found]
    line = statistics.linear_regression(hours, values)
    rests = [value - line.intercept - line.slope * hour for hour, value in zip(hours, values, strict=True)]
    spread = sum((hour - statistics.mean(hours)) ** 2 for hour in hours)
    return line.slope, (sum(rest**2 for rest in rests) / (len(found) - 2) / spread) ** 0.5


def told(name: str, found: Sequence[Look]) -> bool:
    print(f"{name}: {found[-1].hour - found[0].hour:.2f} h of statuses after the first {60 * found[0].hour:.0f} min")
    kinds: dict[str, Callable[[Look], float]] = {
        "heap, MB": lambda look: look.heap_mb,
        "nodes": lambda look: look.nodes,
        "listeners": lambda look: look.listeners,
    }
    for kind, of in kinds.items():
        rise, error = slope(found, of)
        print(f"  {kind:9} {rise:+9.2f} ± {error:.2f} an hour:", *(f"{of(look):.5g}" for look in found))
    rise, _ = slope(found, kinds["heap, MB"])
    print(f"  limit {FLAT_MB:g} MB an hour: {'met' if rise <= FLAT_MB else 'missed'}", flush=True)
    return rise <= FLAT_MB


def main(arguments: Sequence[str] | None = None) -> int:
    parser = options(__doc__)
    parser.add_argument("--pace", type=float, default=10.0)
    parser.add_argument("--hours", type=float, default=0.5, help="of the page's clock, on each page")
    parser.add_argument("--page", choices=("overview", "app"), help="this one alone")
    asked = parser.parse_args(arguments)
    with (
        tempfile.TemporaryDirectory() as folder,
        opened(Path(folder), app_names(asked.apps), "--pace", str(asked.pace)) as page,
    ):
        page.driver.execute_cdp_cmd("Performance.enable", {})
        for script in (HELD, FAST.format(pace=asked.pace)):
            page.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": script})
        places = {name: url for name, url in page.pages.items() if (asked.page or "") in name}
        good = [told(name, looks(page, url, asked.pace, asked.hours)) for name, url in places.items()]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
