"""The port of a runner, a caller that waits for a blocked runner, and the mailbox of the thread that answers."""

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
"""Maximum wait for an answer of a healthy runner, in seconds; its loop turns every few milliseconds."""


class RunnerPort(Protocol):
    """A runner as other processes see it. May be used from any thread."""

    def ask(self, request: Request[A], *, timeout_s: float = ANSWER_S) -> A:
        """Return the runner's answer. Raises: RecomposeError if the runner refuses; ConnectionError if it is gone;
        TimeoutError if it does not answer within ``timeout_s``; another error if the runner is faulty."""

    def vital(self) -> Vital:
        """Return the runner's vital state as seen from here, even if it does not answer. Returns within seconds."""

    def kill(self) -> None:
        """End the runner and its workers at once, without a drain."""


class Patient:
    """A caller for one thread that waits for a silent runner and reports that once. A request that timed out may still
    be carried out, so only requests that may be repeated are allowed."""

    def __init__(self, runner: RunnerPort, answer_s: float = ANSWER_S) -> None:
        self._runner, self._answer_s = runner, answer_s
        self._told = False

    def ask(self, request: Request[A]) -> A:
        """Return the answer, whenever it comes. Raises: as ``RunnerPort.ask``, except TimeoutError."""
        while True:
            try:
                return self._runner.ask(request, timeout_s=self._answer_s)
            except TimeoutError:
                self._tell()

    def _tell(self) -> None:
        if not self._told:
            self._told = True
            Logger().warning(
                "the run is blocked: its sink or reader accepts no results; it continues when one does",
                without_answer_s=self._answer_s,
            )


class Answers:
    """A table of handlers by kind of request."""

    def __init__(self, *handlers: Handler) -> None:
        self._handlers: dict[type[Any], Callable[[Any], Any]] = dict(handlers)

    def __contains__(self, request: Request[A]) -> bool:
        return type(request) in self._handlers

    def answer(self, request: Request[A]) -> A:
        """Call the handler. Raises: as the handler."""
        answer: A = self._handlers[type(request)](request)
        return answer


class Mailbox:
    """Queues requests for the loop's thread, which therefore needs no lock; after ``close`` they are served at once."""

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
        """Begin to answer requests; those in the queue come first. ``wake`` ends a wait of the loop."""
        self._answers, self._wake = answers, wake

    def ask(self, request: Request[A], timeout_s: float) -> A:
        """Return the loop's answer. Raises: as the handler; TimeoutError, after which the request is dropped."""
        future = self.put(request)
        if self._closed.is_set():
            self.serve()
        self._wake()
        try:
            return future.result(timeout_s)
        except TimeoutError:
            if not future.cancel():
                raise
        raise TimeoutError(f"the runner did not answer {type(request).__name__} within {figure(timeout_s, 6)} s")

    def serve(self) -> None:
        """Answer the queued requests."""
        while not self._letters.empty():
            with self._alone:
                self._serve_one()

    def close(self) -> None:
        """Close the mailbox: no loop will serve it any more."""
        self._closed.set()
        self.serve()

    def _serve_one(self) -> None:
        try:
            request, future = self._letters.get_nowait()
        except queue.Empty:  # another thread has served it first
            return
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(self._answers.answer(request))
        except BaseException as error:  # any error is passed to the caller
            future.set_exception(error)
