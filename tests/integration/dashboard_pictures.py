"""The pictures of README and docs, taken from the product: a daemon, its runners and workers, and its page in Chromium.

    make pictures
    python tests/integration/dashboard_pictures.py [FOLDER]     (default: docs/images)

Takes some four minutes. `FOLDER/sizes`, where it exists, gets every scene at three sizes and in both schemes, for
looking at what has changed.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from browser import Browser
from dashboard_rig import page
from PIL import Image

from lab.benchmarks.daemon import Daemon, daemon

ROOT = Path(__file__).parents[2]
SIZES = {"wide": (1440, 900), "middle": (1024, 768), "phone": (390, 844)}
MOST = 1500
"""Pixels of a picture from top to bottom."""
COLOURS = 256
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
    ("compare", "light", "wide"): "dashboard-compare-light",
    ("dynamic", "light", "wide"): "dashboard-dynamic-light",
}
"""Scene, colours and size → its name in docs/images."""
APP = "synthetic"
STEADY = {"compute": "wait", "total_ms": 120, "cv": 0.1}
"""Stages of 40 ms that sleep: the pictures come out alike on busy machines."""
THROUGHPUT = {"app": APP, "metric": "throughput", "target": "input_rate", "threshold": 0.1}
TWO_MINUTES = "const it = document.getElementById('length'); it.value = 120; it.dispatchEvent(new Event('change'))"
BROKEN = """
from apps.contract import App
from compositions.model import Stage


class Camera(App):
    name = "camera"
    description = "Finds people in the pictures of a camera that is not there."
    stages = (Stage("grab"), Stage("detect"))

    def prepare(self):
        raise OSError("no camera at /dev/video0; give another one")

    def items(self, path):
        return iter(range(10))

    def grab(self, value):
        return value

    def detect(self, value):
        return value
"""


class Camera:
    """Takes what a page shows in both schemes: the same moment, so far as one picture can follow the other."""

    def __init__(self, seen: Browser, folder: Path) -> None:
        self._seen, self._folder = seen, folder

    def take(self, scene: str) -> None:
        for scheme in ("light", "dark"):
            self._seen.colours(scheme)
            for size, (width, height) in SIZES.items():
                name = KEPT.get((scene, scheme, size))
                every = (self._folder / "sizes").is_dir()
                if name is None and not every:
                    continue
                self._seen.resize(width, height)
                self._seen.settle()
                if name is not None:
                    path = self._folder / f"{name}.png"
                    self._seen.picture(path, MOST, WITHIN.get(scene, "html"))
                    taken = Image.open(path).convert("RGB")
                    few = taken.quantize(COLOURS, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
                    few.save(path, optimize=True)
                if every:
                    self._seen.picture(self._folder / "sizes" / f"{scene}-{scheme}-{size}.png")


class Course:
    """An app's way through all states, each held until it was taken."""

    def __init__(self, served: Daemon, seen: Browser, take: Callable[[str], None]) -> None:
        self._served, self._seen, self._take = served, seen, take

    def run(self) -> None:
        self._served.send("POST", "/apps/camera/start", {"input": {"rate_per_s": 5}})
        self._starting()
        self._earlier()
        self._switching()
        self._stable()
        self._dynamic()
        self._overloaded()
        self._infeasible()
        self._compared()
        self._failed()

    def _open(self, place: str, text: str, within: str = ".app") -> None:
        self._seen.resize(1440, 900)
        self._seen.open(place)
        self._seen.sees(text, within, seconds=60)

    def _until(self, *states: str, seconds: float = 90.0) -> None:
        Daemon.wait_for(lambda: self._served.status(APP)["state"] in states, seconds, f"{APP} to be {states}")

    def _start(self, rate_per_s: float) -> None:
        body = {"input": {"rate_per_s": rate_per_s}, "composition": "1", "options": STEADY}
        self._served.send("POST", f"/apps/{APP}/start", body)

    def _failed(self) -> None:
        Daemon.wait_for(lambda: self._served.status("camera")["state"] == "failed", 180, "the app to be given up")
        self._open("#/app/camera", "no camera at /dev/video0", ".notices")
        self._take("failed")

    def _starting(self) -> None:
        self._start(10)
        self._open(f"#/app/{APP}", "Workers are being started")
        self._take("starting")

    def _earlier(self) -> None:
        """A run to compare with: one that was pinned, under the load that the next one has."""
        self._until("stable")
        self._served.send("POST", "/slo", THROUGHPUT)
        self._served.send("PUT", f"/apps/{APP}/mode", {"mode": "pinned", "composition": "1"})
        self._served.send("PUT", f"/apps/{APP}/input", {"rate_per_s": 34})
        time.sleep(25)
        self._served.send("POST", f"/apps/{APP}/stop", {})

    def _switching(self) -> None:
        self._start(10)
        self._until("stable")
        self._open(f"#/app/{APP}", "SLO met")
        self._seen.run(TWO_MINUTES)
        time.sleep(20)
        self._served.send("PUT", f"/apps/{APP}/input", {"rate_per_s": 34})
        Daemon.wait_for(lambda: self._seen.all(".drawing[data-switching=true]") != [], 60, "a switch")
        self._take("switching")

    def _stable(self) -> None:
        self._until("stable")
        self._seen.sees("SLO met", ".head", seconds=60)
        time.sleep(30)
        self._take("stable")
        number = self._served.status(APP)["last_decision"]["id"]
        self._open(f"#/app/{APP}/decision/{number}", "Gap in the output", ".decisions details[open]")
        self._take("decision")
        self._open("#/", APP, ".card")
        self._take("overview")

    def _dynamic(self) -> None:
        self._pinned("Dyn*5", "free")
        self._open(f"#/app/{APP}", "workers go from stage to stage", ".drawing")
        time.sleep(10)
        self._take("dynamic")

    def _pinned(self, notation: str, name: str) -> None:
        document = f'app: {APP}\ncompositions: [{{name: {name}, notation: "{notation}"}}]\n'
        answer = self._served.http.post("/compositions", content=document, headers={"content-type": "application/yaml"})
        answer.raise_for_status()
        self._served.send("PUT", f"/apps/{APP}/mode", {"mode": "pinned", "composition": name})

    def _overloaded(self) -> None:
        self._served.send("PUT", f"/apps/{APP}/mode", {"mode": "pinned", "composition": "1"})
        self._open(f"#/app/{APP}", "Source held back.", ".notices.load")
        time.sleep(15)
        self._take("overloaded")

    def _infeasible(self) -> None:
        self._served.send("PUT", f"/apps/{APP}/input", {"rate_per_s": 10})
        self._served.send("PUT", f"/apps/{APP}/mode", {"mode": "auto"})
        self._served.send("POST", "/slo", {"app": APP, "metric": "latency", "target": 20})
        self._open(f"#/app/{APP}", "The SLO is out of reach.", ".notices")
        self._take("infeasible")

    def _compared(self) -> None:
        time.sleep(12)  # telemetry writes ten seconds at a time
        self._open(f"#/app/{APP}/runs", "of the time", ".compare")
        self._take("compare")


def scenes_of(folder: Path) -> Iterator[str]:
    """Names of scenes, as each is there."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as state:
        apps = Path(state) / "apps"
        apps.mkdir()
        (apps / "camera.py").write_text(BROKEN)
        with daemon(Path(state), "--apps", str(apps)) as served:
            with page(f"http://127.0.0.1:{served.port}", Path(state) / "profile") as seen:
                camera, done = Camera(seen, folder), list[str]()

                def take(scene: str) -> None:
                    camera.take(scene)
                    done.append(scene)
                    print(scene, flush=True)

                Course(served, seen, take).run()
                yield from done
            served.send("POST", f"/apps/{APP}/stop", {})


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    missing = {scene for scene, _, _ in KEPT} - set(scenes_of(folder))
    assert not missing, f"no picture of {missing}"


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images")
