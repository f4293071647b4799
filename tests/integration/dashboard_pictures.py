"""The pictures of README and docs, taken from the product: its page in a browser, on a daemon that plays scenes.

    python tests/integration/dashboard_pictures.py [FOLDER]     (default: docs/images)

`FOLDER/sizes`, where it exists, gets every scene at three sizes too, for looking at what has changed.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from browser import Browser
from dashboard_rig import LATENCY, PUSHED, SceneDaemon, page, scenes
from dashboard_scenes import NOTICES, SCENES
from PIL import Image

ROOT = Path(__file__).parents[2]
SIZES = {"wide": (1440, 900), "middle": (1024, 768), "phone": (390, 844)}
MOST = 1500
"""Pixels of a picture from top to bottom."""
COLOURS = 128
WITHIN = {"decision": ".panel:has(.decisions)"}
"""What is shown of a scene, where that is not the page from its top."""
KEPT = {
    ("stable", "light", "wide"): "dashboard-app-light",
    ("stable", "dark", "wide"): "dashboard-app-dark",
    ("stable", "light", "phone"): "dashboard-narrow-light",
    ("stable", "dark", "phone"): "dashboard-narrow-dark",
    ("overloaded", "light", "wide"): "dashboard-overloaded-light",
    ("infeasible", "light", "wide"): "dashboard-infeasible-light",
    ("failed", "dark", "wide"): "dashboard-failed-dark",
    ("starting", "light", "wide"): "dashboard-starting-light",
    ("switching", "dark", "wide"): "dashboard-switching-dark",
    ("overview", "dark", "wide"): "dashboard-overview-dark",
    ("decision", "light", "wide"): "dashboard-decision-light",
}
"""Scene, colours and size → its name in docs/images."""


class Camera:
    def __init__(self, seen: Browser, folder: Path, scheme: str) -> None:
        self._seen, self._folder, self._scheme = seen, folder, scheme

    def take(self, scene: str) -> None:
        for size, (width, height) in SIZES.items():
            self._seen.resize(width, height)
            self._seen.settle()
            name = KEPT.get((scene, self._scheme, size))
            if name is not None:
                path = self._folder / f"{name}.png"
                self._seen.picture(path, MOST, WITHIN.get(scene, "html"))
                Image.open(path).convert("RGB").quantize(COLOURS).save(path, optimize=True)
            if (sizes := self._folder / "sizes").is_dir():
                self._seen.picture(sizes / f"{scene}-{self._scheme}-{size}.png")


def play(daemon: SceneDaemon, told: dict[str, Any]) -> None:
    """From the beginning: composition 1, then an objective, then what the scene tells."""
    daemon.send("POST", "/apps/ferret/stop", {})
    daemon.send("DELETE", "/slo/ferret", None)
    daemon.send("POST", "/apps/ferret/start", PUSHED)
    daemon.send("POST", "/slo", LATENCY)
    daemon.ferret(**{"moved_ago_s": 100.0, **told})


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as state, scenes(Path(state)) as daemon:
        daemon.ferret()
        daemon.send("POST", "/slo", LATENCY)
        for scheme in ("light", "dark"):
            with page(f"http://127.0.0.1:{daemon.port}", Path(state) / scheme) as seen:
                seen.colours(scheme)
                camera = Camera(seen, folder, scheme)
                for name, told in SCENES.items():
                    play(daemon, told)
                    seen.open("#/app/ferret")
                    seen.driver.refresh()
                    seen.sees(NOTICES.get(name, "ferret"), ".app")
                    seen.until(lambda: seen.all(".chart .line.input[d*=L]"), "charts")
                    camera.take(name)
                play(daemon, {})
                seen.open("#/")
                seen.sees("ferret", ".card")
                camera.take("overview")
                number = daemon.status("ferret")["last_decision"]["id"]
                seen.open(f"#/app/ferret/decision/{number}")
                seen.sees("Gap in the output", ".decisions details[open]")
                camera.take("decision")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images")
