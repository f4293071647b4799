"""The rig of the dashboard's tests: a daemon that plays scenes, and a browser that is held to its manners."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import psutil
from browser import Browser, browser
from selenium import webdriver

from lab.benchmarks.daemon import UP_S, Daemon

PROGRAM, NURSERY = (Path(__file__).with_name(f"dashboard_{name}.py") for name in ("daemon", "nursery"))
PUSHED = {"source": {"kind": "push"}, "input": {"rate_per_s": 10}, "composition": "1"}
LATENCY = {"app": "ferret", "metric": "latency", "target": 400}


class Forked(psutil.Process):
    """As much of ``Popen`` as is used of it, for a process that is no child of ours."""

    def poll(self) -> int | None:
        return None if self.is_running() else 0


class Nursery:
    """``dashboard_nursery.py`` in a process of its own."""

    def __init__(self) -> None:
        command = [sys.executable, str(NURSERY)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def start(self, **asked: Any) -> Forked:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        return Forked(int(self.process.stdout.readline()))

    def close(self) -> None:
        self.process.communicate()


class SceneDaemon(Daemon):
    """``dashboard_daemon.py`` in a process of its own, which the ``nursery`` forks if there is one."""

    token: str | None = None
    nursery: Nursery | None = None

    def start(self) -> None:
        arguments = ["--port", str(self.port), "--state", str(self.state), *self.arguments]
        environment = {"RECOMPOSE_TOKEN": self.token} if self.token else {}
        if self.token:
            self.http.headers["authorization"] = f"Bearer {self.token}"
        if self.nursery:
            log_path = str(self.state / "daemon.log")
            forked = self.nursery.start(arguments=arguments, environment=environment, log=log_path)
            self.process = cast("subprocess.Popen[bytes]", forked)
        else:
            self._start_alone([sys.executable, str(PROGRAM), *arguments], {**os.environ, **environment})
        self.wait_for(self._ready, UP_S, "the daemon to be ready")

    def _start_alone(self, command: list[str], environment: dict[str, str]) -> None:
        with (self.state / "daemon.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)

    def ferret(self, **told: Any) -> None:
        """Ferret runs, and its status says ``told``."""
        if self.status("ferret")["state"] == "stopped":
            self.send("POST", "/apps/ferret/start", PUSHED)
        if told:
            self.send("POST", "/apps/ferret/items", told)


@contextmanager
def scenes(
    state: Path, *arguments: str, token: str | None = None, nursery: Nursery | None = None
) -> Iterator[SceneDaemon]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    playing = SceneDaemon(port, state, arguments)
    playing.token, playing.nursery = token, nursery
    try:
        playing.start()
        yield playing
    finally:
        playing.http.close()
        if playing.process is not None and playing.process.poll() is None:
            os.killpg(playing.process.pid, signal.SIGKILL)
            playing.process.wait()


@contextmanager
def page(
    base: str, where: Path | webdriver.Chrome, refused: tuple[int, ...] = (), *, lost: bool = False
) -> Iterator[Browser]:
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
