"""The port of a runner in this process, in a Ray actor, or in a test as a fake; and a caller that waits for a blocked
one."""

from typing import Protocol, TypeVar

from compositions.logger import Logger
from service.runner.rpc.requests import Request
from service.runner.rpc.vital import Vital

A = TypeVar("A")

ANSWER_S = 5.0
"""Longest wait for an answer of a healthy runner; its loop turns every few milliseconds."""


class RunnerPort(Protocol):
    """A runner seen from outside. May be used from any thread."""

    def ask(self, request: Request[A], *, timeout_s: float = ANSWER_S) -> A:
        """The runner's answer.

        Raises: RecomposeError when the runner refuses the request; ConnectionError when it is gone; TimeoutError when
        it does not answer within ``timeout_s``; another error when it is broken.
        """

    def vital(self) -> Vital:
        """Return the runner's vital state as seen from here, even if it does not answer. Returns within seconds."""

    def kill(self) -> None:
        """Ends it at once, and its workers with it; nothing is drained."""


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
            Logger().warning(
                "the run is blocked: its sink or the app takes no results; it continues when they do",
                without_answer_s=self._answer_s,
            )
