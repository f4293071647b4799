"""``recompose demo``: daemon, app, SLO and an input that changes; a live view; a summary; the end.

Nothing is fixed to a machine: the app is profiled at a gentle rate first, then the rates and the SLO follow from what
its compositions are predicted to do here.
"""

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
from collections.abc import Mapping, Sequence
from pathlib import Path

from compositions.errors import RecomposeError
from service.cli import render
from service.cli.demo_course import AppClient, Course, DemoView
from service.cli.follow import INTERRUPTED, Ending, first_is_noted
from service.cli.http import Client, ServiceError
from service.cli.texts import parse_options
from service.cli.watch_view import DECISIONS

OPTIONS: Mapping[str, Mapping[str, object]] = {"ferret": {"top_k": 30}, "synthetic": {"compute": "wait"}}
"""So that there is something to see on two cores: Ferret's rank has three quarters of the work, as in Vogel et al.;
stages that wait scale beyond the cores."""


def on_ray(app: str, apps_dirs: tuple[Path, ...], options: tuple[str, ...], steps: tuple[float, float, float]) -> None:
    """Show on this machine how ``app`` is kept at an SLO while its input rises and falls."""
    began_s = time.monotonic()
    given = {**OPTIONS.get(app, {}), **parse_options(options)}
    with DemoView(app) as view:
        view.say("starting the daemon and Ray")
        with Daemon(apps_dirs) as daemon, first_is_noted() as interrupted:
            seen = AppClient(daemon.client, app)
            view.ask(lambda: seen.decisions(DECISIONS))
            tally = Course(seen, view, began_s, steps, interrupted).run(given)
            view.say("ending the daemon")
    render.console().print(render.summary_table(tally.rows()))
    if tally.damage:
        raise RecomposeError(f"the stream was damaged: {tally.damage}")
    if interrupted():
        raise Ending(INTERRUPTED, "interrupted; what was accepted is delivered")


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
