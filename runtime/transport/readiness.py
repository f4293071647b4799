"""One poll over everything that a hub listens to: a handler for each file descriptor."""

from __future__ import annotations

import select
from collections.abc import Callable

READ, WRITE = select.POLLIN, select.POLLOUT
Handler = Callable[[int], None]
"""Gets the mask of the events of its descriptor."""


class Readiness:
    def __init__(self) -> None:
        self._poller = select.poll()
        self._handlers: dict[int, Handler] = {}

    def watch(self, descriptor: int, handler: Handler) -> None:
        """Calls ``handler`` from now on when there is something to read, or the connection broke."""
        self._handlers[descriptor] = handler
        self._poller.register(descriptor, READ)

    def watch_writing(self, descriptor: int, wanted: bool) -> None:
        """Calls its handler also, or no longer, when there is room to write."""
        self._poller.modify(descriptor, READ | WRITE if wanted else READ)

    def forget(self, descriptor: int) -> None:
        if self._handlers.pop(descriptor, None) is not None:
            self._poller.unregister(descriptor)

    def serve(self, wait_ms: int | None) -> None:
        """Waits for something to be ready (``None``: for as long as it takes) and calls all handlers concerned."""
        handlers = self._handlers
        for descriptor, mask in self._poller.poll(wait_ms):
            if handler := handlers.get(descriptor):  # one before it may have closed this one
                handler(mask)
