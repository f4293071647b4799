"""The port of a runner, a caller that waits for a blocked one, and the mailbox of the thread that answers."""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

from compositions.logger import Logger
from compositions.wording import figure
from service.runner.rpc.requests import Handler, Request
from service.runner.rpc.vital import Vital

A = TypeVar("A")

ANSWER_S = 5.0
"""Longest wait for an answer of a healthy runner; its loop turns every few milliseconds."""


class RunnerPort(Protocol):
    """A runner seen from outside. May be used from any thread."""

    def ask(self, request: Request[A], *, timeout_s: float = ANSWER_S) -> A:
        """The runner's answer. Raises: RecomposeError when the runner refuses the request; ConnectionError when it is
        gone; TimeoutError when it does not answer within ``timeout_s``; another error when it is broken."""

    def vital(self) -> Vital:
        """Return the runner's vital state as seen from here, even if it does not answer. Returns within seconds."""

    def kill(self) -> None:
        """Ends it at once, and its workers with it; nothing is drained."""


class Patient:
    """Waits on for a silent runner, and says so once. For one thread. A request that was given up may still be carried
    out, so ask only for what may be done twice."""

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


class Answers:
    """A table of handlers, one a kind of request."""

    def __init__(self, *handlers: Handler) -> None:
        self._handlers: dict[type[Any], Callable[[Any], Any]] = dict(handlers)

    def __contains__(self, request: Request[A]) -> bool:
        return type(request) in self._handlers

    def answer(self, request: Request[A]) -> A:
        """Raises: what the handler raises."""
        answer: A = self._handlers[type(request)](request)
        return answer


class Mailbox:
    """Requests wait here for the loop's thread, so that it needs no lock; after ``close`` they are served at once."""

    def __init__(self) -> None:
        self._letters: queue.SimpleQueue[tuple[Request[Any], Future[Any]]] = queue.SimpleQueue()
        self._alone = threading.Lock()
        self._closed = threading.Event()

    def put(self, request: Request[A]) -> Future[A]:
        """Queue a request for the loop's thread."""
        future: Future[A] = Future()
        self._letters.put((request, future))
        return future

    def open(self, answers: Answers, wake: Callable[[], None]) -> None:
        """Let requests be answered from now on; those put before come first. ``wake`` ends a wait of the loop."""
        self._answers, self._wake = answers, wake

    def ask(self, request: Request[A], timeout_s: float) -> A:
        """The loop's answer. Raises: what the handler raises; TimeoutError, and then it is answered no more."""
        future = self.put(request)
        if self._closed.is_set():
            self.serve()
        self._wake()
        try:
            return future.result(timeout_s)
        except TimeoutError:
            if not future.cancel():
                raise
        raise TimeoutError(f"the loop did not answer {type(request).__name__} within {figure(timeout_s, 6)} s")

    def serve(self) -> None:
        """Answers what waits."""
        while not self._letters.empty():
            with self._alone:
                self._serve_one()

    def close(self) -> None:
        """No loop will serve any more."""
        self._closed.set()
        self.serve()

    def _serve_one(self) -> None:
        try:
            request, future = self._letters.get_nowait()
        except queue.Empty:  # another thread was quicker
            return
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(self._answers.answer(request))
        except BaseException as error:  # whatever it is, it belongs to who asked
            future.set_exception(error)
