"""One poll over everything that a hub listens to: a handler for each file descriptor."""

from __future__ import annotations

import math
import select
from collections.abc import Callable

READ, WRITE = select.POLLIN, select.POLLOUT
Handler = Callable[[int], None]
"""Gets the mask of the events of its descriptor."""
_READY_AT_ONCE = 256
_LONGEST_S = 10**6


class Readiness:
    def __init__(self) -> None:
        self._poller = select.epoll() if hasattr(select, "epoll") else _Poll()
        self._handlers: dict[int, Handler] = {}

    def watch(self, descriptor: int, handler: Handler) -> None:
        """Calls ``handler`` from now on when there is something to read, or the connection broke."""
        self._handlers[descriptor] = handler
        self._poller.register(descriptor, READ)

    def watch_writing(self, descriptor: int, wanted: bool) -> None:
        """Calls its handler also, or no longer, when there is room to write."""
        self._poller.modify(descriptor, READ | WRITE if wanted else READ)

    def forget(self, descriptor: int) -> None:
        """Before it is closed."""
        if self._handlers.pop(descriptor, None) is not None:
            self._poller.unregister(descriptor)

    def serve(self, wait_s: float | None) -> None:
        """Waits for something to be ready (``None``: for as long as it takes) and calls all handlers concerned."""
        handlers = self._handlers
        try:
            ready = self._poller.poll(wait_s, _READY_AT_ONCE)
        except OverflowError:  # more than the system can wait for
            ready = self._poller.poll(_LONGEST_S, _READY_AT_ONCE)
        for descriptor, mask in ready:
            if handler := handlers.get(descriptor):  # one before it may have closed this one
                handler(mask)

    def close(self) -> None:
        """May be called twice."""
        self._poller.close()


class _Poll:
    """``epoll`` where there is none. It is given all descriptors at every call, which costs a microsecond or two."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self.register, self.modify, self.unregister = self._poll.register, self._poll.modify, self._poll.unregister

    def poll(self, wait_s: float | None, _most: int) -> list[tuple[int, int]]:
        return self._poll.poll(None if wait_s is None else math.ceil(wait_s * 1000))

    def close(self) -> None:
        """There is nothing to close."""
