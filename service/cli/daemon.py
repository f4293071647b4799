"""A daemon of its own for the demo: a subprocess with a state directory and a port that nobody else uses."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from service.cli.http import Client, ServiceError

READY_BY_S = 60.0
END_BY_S = 45.0
"""Longer than the drain of an app."""


class Daemon:
    """A context: ready inside, gone after it."""

    def __init__(self, apps_dirs: Sequence[Path] = (), *arguments: str) -> None:
        self._apps = [part for folder in apps_dirs for part in ("--apps", str(folder))]
        self._arguments = arguments
        self._folder = Path(tempfile.mkdtemp(prefix="recompose-demo-"))
        self._log = self._folder / "log"

    def __enter__(self) -> Daemon:
        port, token = _free_port(), secrets.token_urlsafe(16)
        command = [sys.executable, "-m", __package__, "serve", "--port", str(port), "--state", str(self._folder)]
        with self._log.open("wb") as log:
            environment = {**os.environ, "RECOMPOSE_TOKEN": token}
            self._process = subprocess.Popen(
                [*command, *self._apps, *self._arguments],
                env=environment,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the demo; it ends its daemon in order
            )
        self.client = Client(f"http://127.0.0.1:{port}", token)
        try:
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _wait(self) -> None:
        give_up_s = time.monotonic() + READY_BY_S
        while time.monotonic() < give_up_s:
            if self._process.poll() is not None:
                raise ServiceError(f"the daemon ended: {self._last_words()}")
            try:
                self.client.get("/readyz")
            except ServiceError:
                time.sleep(0.1)
            else:
                return
        raise ServiceError(f"the daemon was not ready within {READY_BY_S:.0f} s: {self._last_words()}")

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(END_BY_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port
