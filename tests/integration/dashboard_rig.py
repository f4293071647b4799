"""The rig of the dashboard's tests: a daemon that plays scenes, and a browser that is held to its manners."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog
import uvicorn
from browser import Browser, browser
from dashboard_daemon import scene_daemon
from selenium.webdriver import Chrome
from structlog.processors import TimeStamper

from lab.benchmarks.daemon import UP_S, Daemon, free_port
from service.api import create_app
from service.api.guard import Access
from service.daemon.store.store import DaemonStore
from service.logs import Recent

APPS = ("ferret", "synthetic")
PUSHED = {"source": {"kind": "push"}, "input": {"rate_per_s": 10}, "composition": "1"}
FAST_PERIOD_S = 0.002
"""About what a page takes for a status: made faster, most would be made for nobody."""
LATENCY = {"app": "ferret", "metric": "latency", "target": 400}


@dataclass
class SceneDaemon(Daemon):
    """It plays scenes in a thread of this process, and may be ended and started again."""

    apps: Sequence[str] = APPS
    token: str | None = None
    fast: bool = False
    nodes: bool = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        if self.token:
            self.http.headers["authorization"] = f"Bearer {self.token}"
        self._store, recent = DaemonStore(self.state), Recent()
        how = {"fast": self.fast, "nodes": self.nodes}
        played = scene_daemon(self.apps, self._store, self.state / "telemetry", **how)
        app = create_app(played, Access(token=self.token), recent)
        if self.fast:
            app.state.broadcaster._period_s = FAST_PERIOD_S
        structlog.get_config()["processors"][:0] = [TimeStamper("iso", key="at"), recent]
        quiet = {"log_config": None, "log_level": "critical"}
        self._server = uvicorn.Server(uvicorn.Config(app, port=self.port, timeout_graceful_shutdown=1, **quiet))
        self._thread = threading.Thread(target=self._server.run)
        self._thread.start()
        self.wait_for(self._ready, UP_S, "the daemon to be ready")

    def kill(self) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._store.close()
        del structlog.get_config()["processors"][:2]

    def ferret(self, **told: Any) -> None:
        """Ferret runs, and its status says ``told``."""
        if self.status("ferret")["state"] == "stopped":
            self.send("POST", "/apps/ferret/start", PUSHED)
        if told:
            self.send("POST", "/apps/ferret/items", told)


@contextmanager
def scenes(state: Path, **how: Any) -> Iterator[SceneDaemon]:
    playing = SceneDaemon(free_port(), state, **how)
    playing.start()
    try:
        yield playing
    finally:
        playing.http.close()
        playing.kill()


@contextmanager
def page(base: str, where: Path | Chrome, refused: tuple[int, ...] = (), *, lost: bool = False) -> Iterator[Browser]:
    """A browser that must ask nobody else and complain of nothing but answers ``refused`` and a service that is
    ``lost``, where a test means them."""
    with browser(base, where) as opened:
        yield opened
        opened.note_requests()
        outside = [url for url in opened.asked if not url.startswith((base, "data:", "chrome:"))]
        assert not outside, f"asked somebody else: {outside}"
        known = [f"the server responded with a status of {status}" for status in refused]
        known += ["net::ERR_"] if lost else []
        complaints = [each for each in opened.complaints() if not any(text in each for text in known)]
        assert not complaints, complaints
