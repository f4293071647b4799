"""The place of one app's runner at a host: at most one runner, under a name that outlives the daemon."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import structlog

from service.bodies.spec import RunSpec
from service.daemon.keeping.hosts import Host
from service.running.asking.port import ANSWER_S, RunnerPort
from service.running.asking.requests import Request

A = TypeVar("A")
log = structlog.get_logger()


class Berth:
    """``attach``: the first runner may be one that an earlier daemon left. Used from several threads."""

    def __init__(self, name: str, host: Host, *, attach: bool = False) -> None:
        self._name, self._host, self._attach = name, host, attach
        self._runner: RunnerPort | None = None

    def find(self) -> bool:
        """Takes over the runner that was left here; the first call only."""
        attach, self._attach = self._attach, False
        self._runner = self._host.find(self._name) if attach else None
        return self._runner is not None

    def spawn(self, spec: RunSpec) -> None:
        """A new runner, not started. Raises: RecomposeError when the spec is refused."""
        self._runner = self._host.spawn(self._name, spec)

    def ask(self, request: Request[A], timeout_s: float = ANSWER_S) -> A:
        """Raises: as the runner's port; ConnectionError when there is no runner."""
        runner = self._runner
        if runner is None:
            raise ConnectionError("there is no runner")
        return runner.ask(request, timeout_s=timeout_s)

    def alive(self) -> bool:
        runner = self._runner
        return runner is not None and runner.alive()

    def clear(self) -> None:
        """Ends the runner at once, if there is one."""
        runner, self._runner = self._runner, None
        if runner is not None:
            self._try(runner.kill)

    def leave(self) -> None:
        """As ``clear``, for the last time: also what was kept for another runner ends."""
        self.clear()
        self._try(lambda: self._host.sweep(self._name))

    def _try(self, end: Callable[[], None]) -> None:
        try:
            end()
        except Exception as error:  # it was dead already, or its host is gone
            log.debug("end", name=self._name, error=str(error))
