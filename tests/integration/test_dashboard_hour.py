"""An hour of three apps at four statuses a second, as fast as they can be sent, does not make the page grow.

A third of it is sent, and may take a third of what an hour may. The page keeps a quarter of an hour of every app, a
sample a second; the scene's clock advances a second with every status, so that this is full after a fifth.
"""

from pathlib import Path

import pytest
from browser import CHROMIUM, DRIVER
from dashboard_rig import LATENCY, Nursery, page, scenes
from selenium.webdriver import Chrome as Driver

HOUR = 3600 * 4
SENT = HOUR // 3
LIMIT_BYTES = 100e6 * SENT / HOUR
COUNTING = "window.heard = 0; const parse = JSON.parse; JSON.parse = (text) => (window.heard++, parse(text))"


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs chromium and chromedriver: make browser")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("path", ["#/", "#/app/ferret"])
def test_an_hour_of_events(tmp_path: Path, path: str, nursery: Nursery, chromium: Driver) -> None:
    apps = ["ferret", "synthetic", "third"]
    with scenes(tmp_path, nursery, "--apps", ",".join(apps), "--fast") as fast, page(fast.url, chromium) as seen:
        for app in apps:
            fast.send("POST", f"/apps/{app}/start", {"source": {"kind": "push"}})
        fast.send("POST", "/slo", LATENCY)
        seen.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": COUNTING})
        seen.open(path)
        seen.sees("ferret")
        heaps = []
        while (heard := int(seen.run("return heard"))) < SENT:
            heaps.append(seen.heap_bytes())
            seen.until(lambda heard=heard: seen.run("return heard") > min(heard + 400, SENT), "events", 60)
        print(f"{path}: {heard} events, heap at most {max(heaps) / 1e6:.1f} MB, last {heaps[-1] / 1e6:.1f} MB")
        assert max(heaps) <= LIMIT_BYTES
        nodes = seen.run("return document.getElementsByTagName('*').length")
        assert nodes < 5000
