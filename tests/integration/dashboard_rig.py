"""What the tests of the dashboard stand on: a daemon that plays scenes, and a browser that is held to its manners."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from browser import Browser, browser

from benchmarks.daemon import UP_S, Daemon

PROGRAM = Path(__file__).with_name("dashboard_daemon.py")
PUSHED = {"source": {"kind": "push"}, "input": {"rate_per_s": 10}, "composition": "1"}
LATENCY = {"app": "ferret", "metric": "latency", "target": 400}


class SceneDaemon(Daemon):
    """``dashboard_daemon.py`` in a process of its own."""

    token: str | None = None

    def start(self) -> None:
        command = [sys.executable, str(PROGRAM), "--port", str(self.port), "--state", str(self.state), *self.arguments]
        environment = {**os.environ, **({"RECOMPOSE_TOKEN": self.token} if self.token else {})}
        if self.token:
            self.http.headers["authorization"] = f"Bearer {self.token}"
        log = (self.state / "daemon.log").open("ab")
        self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
        log.close()
        self.wait_for(self._ready, UP_S, "the daemon to be ready")

    def ferret(self, **told: Any) -> None:
        """Ferret runs, and its status says ``told``."""
        if self.status("ferret")["state"] == "stopped":
            self.send("POST", "/apps/ferret/start", PUSHED)
        if told:
            self.send("POST", "/apps/ferret/items", told)


@contextmanager
def scenes(state: Path, *arguments: str, token: str | None = None) -> Iterator[SceneDaemon]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    playing = SceneDaemon(port, state, arguments)
    playing.token = token
    try:
        playing.start()
        yield playing
    finally:
        playing.http.close()
        if playing.process is not None and playing.process.poll() is None:
            os.killpg(playing.process.pid, signal.SIGKILL)
            playing.process.wait()


@contextmanager
def page(base: str, profile: Path, refused: tuple[int, ...] = (), *, lost: bool = False) -> Iterator[Browser]:
    """A browser that must ask nobody else and complain of nothing but answers ``refused`` and a service that is
    ``lost``, where a test means them."""
    with browser(base, profile) as opened:
        yield opened
        opened.note_requests()
        outside = [url for url in opened.asked if not url.startswith((base, "data:", "chrome:"))]
        assert not outside, f"asked somebody else: {outside}"
        known = [f"the server responded with a status of {status}" for status in refused]
        known += ["net::ERR_"] if lost else []
        complaints = [each for each in opened.complaints() if not any(text in each for text in known)]
        assert not complaints, complaints
