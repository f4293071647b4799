"""One app of a running service: what can be asked of it, in the bodies of the API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from service.bodies.base import plain
from service.bodies.compositions import Choice
from service.bodies.decisions import Entry
from service.bodies.requests import LatencySlo, StartRequest
from service.bodies.results import Result
from service.bodies.status import Status
from service.cli.http import Client, read, segment


class AppClient:
    """Raises: ServiceError from every call that the service refuses."""

    def __init__(self, client: Client, app: str) -> None:
        self.name = app
        self._client = client

    def start(self, request: StartRequest) -> Status:
        return read(Status, self._client.request("POST", self._path("apps", "start"), json=plain(request)))

    def stop(self) -> Status:
        """When what was accepted is delivered."""
        return read(Status, self._client.request("POST", self._path("apps", "stop")))

    def set_rate(self, rate_per_s: float) -> None:
        self._client.request("PUT", self._path("apps", "input"), json={"rate_per_s": rate_per_s})

    def set_latency(self, target_ms: float) -> None:
        """An objective for the mean latency."""
        slo = LatencySlo(app=self.name, metric="latency", target=target_ms)
        self._client.request("POST", "/slo", json=plain(slo))

    def statuses(self) -> Iterator[Status]:
        """As they come, until the service ends."""
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
