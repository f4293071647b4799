"""Take the pictures of README and docs from a real daemon in Chromium (five minutes): ``make pictures`` or

    python tests/integration/dashboard_pictures.py [FOLDER]     (default: docs/images)

If ``FOLDER/sizes`` exists, it gets every scene at three sizes and in both colour schemes. In ``dashboard.gif`` the
input of an app rises from 10 to 34 items/s, and the manager changes the composition; it plays five times as fast.
"""

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
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
LIGHT = ("overloaded", "infeasible", "starting", "decision", "compare", "dynamic")
DARK = ("failed", "switching", "overview")
KEPT = {
    **{("stable", scheme, "wide"): f"dashboard-app-{scheme}" for scheme in ("light", "dark")},
    **{("stable", scheme, "phone"): f"dashboard-narrow-{scheme}" for scheme in ("light", "dark")},
    **{(scene, "light", "wide"): f"dashboard-{scene}-light" for scene in LIGHT},
    **{(scene, "dark", "wide"): f"dashboard-{scene}-dark" for scene in DARK},
}
"""Scene, colours and size → its name in docs/images."""
APP = "synthetic"
STEADY = {"compute": "wait", "total_ms": 120, "cv": 0.1}
"""Stages of 40 ms that sleep: the pictures come out alike on busy machines."""
MOVING_SIZE, SHOWN_WIDTH = (1200, 1000), 800
FRAME_S, SHOWN_MS = 1.0, 200
BEFORE_S, AFTER_S = 6, 16
"""Before the input rises, and after the objective is met again."""
LONGEST_S = 90
MOST_BYTES = 1_000_000
START = {"input": {"rate_per_s": 10}, "composition": "1", "options": STEADY}
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
    """An app's way through all states: names of scenes, as each is there."""

    def __init__(self, served: Daemon, seen: Browser) -> None:
        self._served, self._seen, self._send = served, seen, served.send

    def scenes(self) -> Iterator[str]:
        self._send("POST", "/apps/camera/start", {"input": {"rate_per_s": 5}})
        self._start()
        self._open(f"#/app/{APP}", "Workers are being started")
        yield "starting"
        self._run_to_compare_with()
        self._start()
        self._until("stable")
        self._open(f"#/app/{APP}", "SLO met")
        self._seen.run(TWO_MINUTES)
        time.sleep(20)
        self._rate(34)
        Daemon.wait_for(lambda: self._seen.all(".drawing[data-switching=true]") != [], 60, "a switch")
        yield "switching"
        self._until("stable")
        self._seen.sees("SLO met", ".head", seconds=60)
        time.sleep(30)
        yield "stable"
        number = self._served.status(APP)["last_decision"]["id"]
        self._open(f"#/app/{APP}/decision/{number}", "Gap in the output", ".decisions details[open]")
        yield "decision"
        self._open("#/", APP, ".card")
        yield "overview"
        yield from self._in_trouble()

    def _in_trouble(self) -> Iterator[str]:
        document = f'app: {APP}\ncompositions: [{{name: free, notation: "Dyn*5"}}]\n'
        headers = {"content-type": "application/yaml"}
        self._served.http.post("/compositions", content=document, headers=headers).raise_for_status()
        self._mode(mode="pinned", composition="free")
        self._open(f"#/app/{APP}", "workers go from stage to stage", ".drawing")
        time.sleep(10)
        yield "dynamic"
        self._mode(mode="pinned", composition="1")
        self._open(f"#/app/{APP}", "Source held back.", ".notices.load")
        time.sleep(15)
        yield "overloaded"
        self._rate(10)
        self._mode(mode="auto")
        self._send("POST", "/slo", {"app": APP, "metric": "latency", "target": 20})
        self._open(f"#/app/{APP}", "The SLO is out of reach.", ".notices")
        yield "infeasible"
        time.sleep(12)  # telemetry writes ten seconds at a time
        self._open(f"#/app/{APP}/runs", "of the time", ".compare")
        yield "compare"
        Daemon.wait_for(lambda: self._served.status("camera")["state"] == "failed", 180, "the app to be given up")
        self._open("#/app/camera", "no camera at /dev/video0", ".notices")
        yield "failed"

    def _run_to_compare_with(self) -> None:
        """One that was pinned, under the load that the next one has."""
        self._until("stable")
        self._send("POST", "/slo", THROUGHPUT)
        self._mode(mode="pinned", composition="1")
        self._rate(34)
        time.sleep(25)
        self._send("POST", f"/apps/{APP}/stop", {})

    def _open(self, place: str, text: str, within: str = ".app") -> None:
        self._seen.resize(1440, 900)
        self._seen.open(place)
        self._seen.sees(text, within, seconds=60)

    def _until(self, state: str) -> None:
        Daemon.wait_for(lambda: self._served.status(APP)["state"] == state, 90, f"{APP} to be {state}")

    def _start(self) -> None:
        self._send("POST", f"/apps/{APP}/start", START)

    def _mode(self, **mode: str) -> None:
        self._send("PUT", f"/apps/{APP}/mode", mode)

    def _rate(self, rate_per_s: float) -> None:
        self._send("PUT", f"/apps/{APP}/input", {"rate_per_s": rate_per_s})


@contextmanager
def shown(*arguments: str) -> Iterator[tuple[Daemon, Browser]]:
    """A daemon and its page."""
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as state,
        daemon(Path(state), *arguments) as served,
        page(f"http://127.0.0.1:{served.port}", Path(state) / "profile") as seen,
    ):
        yield served, seen
        served.send("POST", f"/apps/{APP}/stop", {})


def scenes(folder: Path) -> set[str]:
    """Take a picture of each, and return their names."""
    done = set[str]()
    with tempfile.TemporaryDirectory() as apps:
        (Path(apps) / "camera.py").write_text(BROKEN)
        with shown("--apps", apps) as (served, seen):
            camera = Camera(seen, folder)
            for scene in Course(served, seen).scenes():
                camera.take(scene)
                done.add(scene)
                print(scene, flush=True)
    return done


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


def adapting(served: Daemon, seen: Browser) -> Iterator[Image.Image]:
    served.send("POST", f"/apps/{APP}/start", START)
    Daemon.wait_for(lambda: served.status(APP)["state"] == "stable", 120, f"{APP} to be stable")
    served.send("POST", "/slo", THROUGHPUT)
    seen.colours("light")
    seen.resize(*MOVING_SIZE)
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


def moving(file: Path) -> None:
    with shown() as (served, seen):
        frames = list(adapting(served, seen))
    palette = frames[-1].quantize(COLOURS // 2, Image.Quantize.FASTOCTREE)
    first, *others = (each.quantize(palette=palette, dither=Image.Dither.NONE) for each in frames)
    first.save(file, save_all=True, append_images=others, duration=SHOWN_MS, loop=0, optimize=True)
    assert file.stat().st_size < MOST_BYTES, f"{file.stat().st_size:,} bytes are too many"
    print(f"{len(frames)} frames, {file.stat().st_size:,} bytes")


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    missing = {scene for scene, _, _ in KEPT} - scenes(folder)
    assert not missing, f"no picture of {missing}"
    moving(folder / "dashboard.gif")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images")
