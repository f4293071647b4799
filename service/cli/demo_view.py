"""The output of a demo, and its client of the service: a live view on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from service.cli import render
from service.cli.http import Client, read, segment
from service.cli.watch_view import WatchView
from service.schemas.base import plain
from service.schemas.compositions import Choice
from service.schemas.decisions import Decision, Entry
from service.schemas.requests import LatencySlo, StartRequest
from service.schemas.results import Result
from service.schemas.status import Status

LINE_EVERY_S = 2.0
REMEMBERED = 6
SAID = 3
"""Lines above the picture."""


class DemoView:
    def __init__(self, app: str) -> None:
        self._app = app
        self._console = render.console()
        self._said: deque[str] = deque(maxlen=REMEMBERED)
        self._decided: deque[Decision] = deque(maxlen=REMEMBERED)
        self._live: Live | None = None
        self._line_due_s = 0.0
        self._began_s = time.monotonic()
        self._watch = WatchView(list)

    def ask(self, decisions: Callable[[], Sequence[Entry]]) -> None:
        """``decisions``: the newest ones, once the service is there."""
        self._watch = WatchView(decisions)

    def __enter__(self) -> DemoView:
        if self._console.is_terminal:
            self._live = Live(console=self._console, refresh_per_second=4, transient=True)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def say(self, sentence: str) -> None:
        """A step of the demo."""
        text = f"{self._elapsed()}  {sentence}"
        self._said.append(text)
        if self._live is None:
            self._console.print(text, soft_wrap=True)

    def show(self, status: Status) -> None:
        self._note(status.changes.last_decision)
        if self._live is not None:
            self._live.update(self._picture(status))
        elif time.monotonic() >= self._line_due_s:
            self._line_due_s = time.monotonic() + LINE_EVERY_S
            self._console.print(self._line(status), soft_wrap=True)

    def _note(self, decision: Decision | None) -> None:
        if decision is None or (self._decided and self._decided[-1].id == decision.id):
            return
        self._decided.append(decision)
        if self._live is None:
            self.say(f"decision {decision.from_} → {decision.to}: {decision.reason}")

    def _picture(self, status: Status) -> RenderableType:
        said = list(self._said)[-SAID:]
        return Group(Text("\n".join(said), no_wrap=True), self._watch.fitting(status, self._console, len(said)))

    def _line(self, status: Status) -> Text:
        composition = status.composition.name if status.composition else "–"
        rates = f"in {render.number(status.input_rate_per_s)}/s, out {render.number(status.throughput_per_s)}/s"
        latency = render.number(status.latency_ms.mean, " ms", 0)
        head = f"{self._elapsed()}  {status.state}: composition {composition}, {rates}, latency {latency}, SLO "
        return Text.assemble(head, render.slo_text(status))

    def _elapsed(self) -> str:
        return f"{time.monotonic() - self._began_s:6.1f} s"


class AppClient:
    """Raises: ServiceError from every call that the service refuses."""

    def __init__(self, client: Client, app: str) -> None:
        self.name = app
        self._client = client

    def start(self, request: StartRequest) -> Status:
        return read(Status, self._client.request("POST", self._path("apps", "start"), json=plain(request)))

    def stop(self) -> Status:
        """Stop the app, and return its status when everything that it accepted is delivered."""
        return read(Status, self._client.request("POST", self._path("apps", "stop")))

    def set_rate(self, rate_per_s: float) -> None:
        self._client.request("PUT", self._path("apps", "input"), json={"rate_per_s": rate_per_s})

    def set_latency(self, target_ms: float) -> None:
        """An objective for the mean latency."""
        slo = LatencySlo(app=self.name, metric="latency", target=target_ms)
        self._client.request("POST", "/slo", json=plain(slo))

    def statuses(self) -> Iterator[Status]:
        """Yield statuses as they come, until the service ends."""
        for status in self._client.stream(self._path("status", "stream")):
            yield read(Status, status)

    def decisions(self, limit: int) -> list[Entry]:
        return read(list[Entry], self._get("decisions", limit=limit))

    def results(self, after: int, limit: int) -> list[Result]:
        """Raises: ServiceError also for results that are gone."""
        return read(list[Result], self._get("results", after=after, limit=limit))

    def compositions(self) -> list[Choice]:
        return read(list[Choice], self._get("compositions"))

    def _get(self, topic: str, **params: int) -> Any:
        return self._client.get(self._path(topic), **params)

    def _path(self, topic: str, action: str = "") -> str:
        return f"/{topic}/{segment(self.name)}" + (f"/{action}" if action else "")
