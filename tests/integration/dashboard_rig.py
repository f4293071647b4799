"""The rig of the dashboard's tests: a daemon that plays scenes, and a browser that is held to its manners."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import psutil
from browser import Browser, browser
from selenium.webdriver import Chrome

from lab.benchmarks.daemon import UP_S, Daemon, free_port

PROGRAM = Path(__file__).with_name("dashboard_daemon.py")
PUSHED = {"source": {"kind": "push"}, "input": {"rate_per_s": 10}, "composition": "1"}
LATENCY = {"app": "ferret", "metric": "latency", "target": 400}


class Forked(psutil.Process):
    """As much of ``Popen`` as is used of it, for a process that is no child of ours."""

    def poll(self) -> int | None:
        return None if self.is_running() else 0


class Nursery:
    """``dashboard_daemon.py`` in a process of its own, which forks daemons."""

    def __init__(self) -> None:
        command = [sys.executable, str(PROGRAM)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def start(self, **asked: Any) -> Forked:
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        return Forked(int(self.process.stdout.readline()))

    def close(self) -> None:
        self.process.communicate()


@dataclass
class SceneDaemon(Daemon):
    """Forked off the ``nursery``; it may be killed and started again."""

    nursery: Nursery = field(kw_only=True)
    token: str = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        if self.token:
            self.http.headers["authorization"] = f"Bearer {self.token}"
        arguments = ["--port", str(self.port), "--state", str(self.state), *self.arguments]
        environment = {"RECOMPOSE_TOKEN": self.token} if self.token else {}
        log_path = str(self.state / "daemon.log")
        forked = self.nursery.start(arguments=arguments, environment=environment, log=log_path)
        self.process = cast("subprocess.Popen[bytes]", forked)
        self.wait_for(self._ready, UP_S, "the daemon to be ready")

    def ferret(self, **told: Any) -> None:
        """Ferret runs, and its status says ``told``."""
        if self.status("ferret")["state"] == "stopped":
            self.send("POST", "/apps/ferret/start", PUSHED)
        if told:
            self.send("POST", "/apps/ferret/items", told)


@contextmanager
def scenes(state: Path, nursery: Nursery, *arguments: str, token: str = "") -> Iterator[SceneDaemon]:
    playing = SceneDaemon(free_port(), state, arguments, nursery=nursery, token=token)
    try:
        playing.start()
        yield playing
    finally:
        playing.http.close()
        if playing.process is not None and playing.process.poll() is None:
            os.killpg(playing.process.pid, signal.SIGKILL)
            playing.process.wait()


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
