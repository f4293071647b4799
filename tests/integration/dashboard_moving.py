"""The moving picture of the README, taken from the product while it adapts: a daemon with real workers, and its page.

    python tests/integration/dashboard_moving.py [FILE]     (default: docs/images/dashboard.gif)

The input of an app rises from 10 to 34 items/s, which its first composition cannot do; the manager chooses another one.
Frames come once a second and are shown five a second.
"""

import sys
import tempfile
import time
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

from browser import Browser
from dashboard_pictures import APP, ROOT, STEADY, THROUGHPUT, TWO_MINUTES
from dashboard_rig import page
from PIL import Image

from lab.benchmarks.daemon import Daemon, daemon

WIDTH, HEIGHT = 1200, 1000
SHOWN_WIDTH = 800
FRAME_S, SHOWN_MS = 1.0, 200
COLOURS = 128
BEFORE_S, AFTER_S = 6, 16
"""Before the input rises, and after the objective is met again."""
LONGEST_S = 90
MOST_BYTES = 1_000_000


def taken(seen: Browser, seconds: float) -> Iterator[Image.Image]:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        begun = time.monotonic()
        shot = Image.open(BytesIO(seen.driver.get_screenshot_as_png())).convert("RGB")
        yield shot.resize((SHOWN_WIDTH, shot.height * SHOWN_WIDTH // shot.width), Image.Resampling.LANCZOS)
        time.sleep(max(0.0, FRAME_S - (time.monotonic() - begun)))


def is_met(served: Daemon) -> bool:
    status = served.status(APP)
    return status["state"] == "stable" and status["slo_status"] == "met" and status["composition"]["name"] != "1"


def course(served: Daemon, seen: Browser) -> Iterator[Image.Image]:
    body = {"input": {"rate_per_s": 10}, "composition": "1", "options": STEADY}
    served.send("POST", f"/apps/{APP}/start", body)
    Daemon.wait_for(lambda: served.status(APP)["state"] == "stable", 120, f"{APP} to be stable")
    served.send("POST", "/slo", THROUGHPUT)
    seen.colours("light")
    seen.resize(WIDTH, HEIGHT)
    seen.open(f"#/app/{APP}")
    seen.sees("SLO met", ".app", seconds=60)
    seen.run(TWO_MINUTES)
    time.sleep(15)
    yield from taken(seen, BEFORE_S)
    served.send("PUT", f"/apps/{APP}/input", {"rate_per_s": 34})
    began = time.monotonic()
    while not is_met(served):
        assert time.monotonic() - began < LONGEST_S, "the objective was not met again"
        yield from taken(seen, FRAME_S)
    yield from taken(seen, AFTER_S)


def main(file: Path) -> None:
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as state,
        daemon(Path(state)) as served,
        page(f"http://127.0.0.1:{served.port}", Path(state) / "profile") as seen,
    ):
        frames = list(course(served, seen))
        served.send("POST", f"/apps/{APP}/stop", {})
    palette = frames[-1].quantize(COLOURS, Image.Quantize.FASTOCTREE)
    first, *others = (each.quantize(palette=palette, dither=Image.Dither.NONE) for each in frames)
    first.save(file, save_all=True, append_images=others, duration=SHOWN_MS, loop=0, optimize=True)
    assert file.stat().st_size < MOST_BYTES, f"{file.stat().st_size:,} bytes are too many"
    print(f"{len(frames)} frames, {file.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images" / "dashboard.gif")
