"""Route requests to their handlers, and pass them to the loop's thread, which serves them between two steps."""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from compositions.wording import figure
from service.runner.rpc.requests import Handler, Request

A = TypeVar("A")


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
    """Requests wait here until the loop's thread serves them, so that nothing the loop owns needs a lock.

    After ``close`` there is no loop to disturb: whoever asks is served at once, one after the other.
    """

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
        raise TimeoutError(f"the loop did not come to {type(request).__name__} within {figure(timeout_s, 6)} s")

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
