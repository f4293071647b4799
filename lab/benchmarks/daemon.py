"""A real daemon in a separate process, for benchmarks and tests that use the API."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

UP_S = 60.0
SERVE = ("-m", "service.cli", "serve")


@dataclass
class Daemon:
    """A daemon; ``process`` may be killed and started again with ``restart``: state and port stay."""

    port: int
    state: Path
    arguments: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = None
    program: tuple[str, ...] = SERVE

    def __post_init__(self) -> None:
        token = os.environ.get("RECOMPOSE_TOKEN")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", headers=headers, timeout=120.0)

    def start(self) -> None:
        command = [sys.executable, *self.program, "--port", str(self.port), "--state", str(self.state)]
        log = (self.state / "daemon.log").open("ab")
        self.process = subprocess.Popen([*command, *self.arguments], stdout=log, stderr=log, start_new_session=True)
        log.close()
        self.wait_for(self._ready, UP_S, "the daemon to be ready")

    def _ready(self) -> bool:
        if self.process is not None and self.process.poll() is not None:
            raise RuntimeError(f"the daemon ended with {self.process.returncode}: {self.log()[-2000:]}")
        try:
            return self.http.get("/readyz").status_code == 200
        except httpx.TransportError:
            return False

    def kill(self) -> None:
        """Send SIGKILL to the daemon only; its child processes must detect that by themselves."""
        assert self.process is not None, "start it first"
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """Send SIGTERM, and return the exit status."""
        assert self.process is not None, "start it first"
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=60)

    def log(self) -> str:
        return (self.state / "daemon.log").read_text(errors="replace")

    def get(self, path: str, **params: Any) -> Any:
        answer = self.http.get(path, params=params)
        answer.raise_for_status()
        return answer.json()

    def send(self, method: str, path: str, body: Any) -> Any:
        answer = self.http.request(method, path, json=body)
        if answer.is_error:
            raise RuntimeError(f"{method} {path}: {answer.status_code} {answer.text}")
        return answer.json() if answer.content else None

    def status(self, app: str) -> dict[str, Any]:
        status: dict[str, Any] = self.get(f"/status/{app}")
        return status

    def results(self, app: str) -> Iterator[dict[str, Any]]:
        """Yield all results that the daemon still retains, page by page."""
        cursor: dict[str, Any] = {}
        while page := self.get(f"/results/{app}", limit=1000, **cursor):
            yield from page
            cursor = {"after": page[-1]["serial"], "run": page[-1]["run"]}

    @staticmethod
    def wait_for(true: Callable[[], bool], seconds: float, what: str) -> None:
        give_up_s = time.monotonic() + seconds
        while not true():
            if time.monotonic() > give_up_s:
                raise TimeoutError(f"waited {seconds:g} s for {what}")
            time.sleep(0.1)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def daemon(state: Path, *arguments: str, program: tuple[str, ...] = SERVE) -> Iterator[Daemon]:
    """Yield a daemon on a free loopback port with its state in ``state``; end it and all it started afterwards."""
    running = Daemon(free_port(), state, arguments, program=program)
    try:
        running.start()
        yield running
        running.stop()
    finally:
        running.http.close()
        if running.process is not None and running.process.poll() is None:
            os.killpg(running.process.pid, signal.SIGKILL)
            running.process.wait()
