"""Asking a runner whose loop may be held up: an output that blocks must not end the run that it belongs to."""

from __future__ import annotations

from typing import TypeVar

import structlog

from service.running.asking.port import ANSWER_S, RunnerPort
from service.running.asking.requests import Request

A = TypeVar("A")


class Patient:
    """Waits on where a runner does not answer in time, and says so once. For one thread.

    A request that was given up is carried out at most once more: ask only for what may be done twice.
    """

    def __init__(self, runner: RunnerPort, answer_s: float = ANSWER_S) -> None:
        self._runner, self._answer_s = runner, answer_s
        self._told = False

    def ask(self, request: Request[A]) -> A:
        """The answer, whenever it comes. Raises: as ``RunnerPort.ask``, but for TimeoutError."""
        while True:
            try:
                return self._runner.ask(request, timeout_s=self._answer_s)
            except TimeoutError:
                self._tell()

    def _tell(self) -> None:
        if not self._told:
            self._told = True
            structlog.get_logger().warning(
                "the run is held up, by where its results go or by the app; it goes on when they do",
                without_answer_s=self._answer_s,
            )
