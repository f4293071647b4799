"""Make calls that may block, one after the other in a thread; the loop handles what they return.

Ray's calls wait for its head, for seconds when that is away. A loop that made them itself would deliver nothing until
then, although its workers are alive and their sockets need no Ray.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")


def _nothing(_: Any) -> None:
    """What is done about an answer that nobody needs."""


class BlockingCalls:
    """``wake`` is called when there is an answer. ``ask`` and ``answer`` are for one thread, that of the loop."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._asked: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self.answers: deque[Callable[[], None]] = deque()
        """Those that are there, for ``answer``."""
        self._thread = threading.Thread(target=self._work, name="recompose-ray-calls", daemon=True)
        self._thread.start()

    def ask(
        self,
        call: Callable[[], T],
        then: Callable[[T], None] = _nothing,
        otherwise: Callable[[Exception], None] = _nothing,
    ) -> None:
        """Makes the call in its turn. ``answer`` gives ``then`` what it returned, or ``otherwise`` what it raised."""
        self._asked.put(lambda: self._make(call, then, otherwise))

    def answer(self) -> None:
        """Deals with all answers that are there."""
        while self.answers:
            self.answers.popleft()()

    def close(self, timeout_s: float) -> None:
        """Makes the calls that were asked for, as far as ``timeout_s`` allows. May be called twice."""
        self._asked.put(None)
        self._thread.join(timeout_s)

    def _work(self) -> None:
        while (job := self._asked.get()) is not None:
            job()

    def _make(self, call: Callable[[], T], then: Callable[[T], None], otherwise: Callable[[Exception], None]) -> None:
        try:
            answer = partial(then, call())
        except Exception as error:
            answer = partial(otherwise, error)
        self.answers.append(answer)
        self._wake()
