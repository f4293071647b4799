"""A hub's poll, and its stream connections, which receive and send whole messages without blocking."""

import select
import socket
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from compositions.settings import ranged
from runtime.transport.stream import MessageReader, MessageWriter, prepare, send_with
from runtime.transport.wire import Message

READ, WRITE = select.POLLIN, select.POLLOUT
Handler = Callable[[int], object]
"""Called with the mask of the events of its descriptor."""
_READY_AT_ONCE = 256
_LONGEST_S = 10**6


class Readiness:
    def __init__(self) -> None:
        self._poller = select.epoll()
        self._handlers: dict[int, Handler] = {}

    def watch(self, descriptor: int, handler: Handler) -> None:
        """Call ``handler`` from now on when the descriptor is readable, or its connection broke."""
        self._handlers[descriptor] = handler
        self._poller.register(descriptor, READ)

    def watch_writing(self, descriptor: int, wanted: bool) -> None:
        """Call the handler also when the descriptor is writable, if ``wanted``."""
        self._poller.modify(descriptor, READ | WRITE if wanted else READ)

    def forget(self, descriptor: int) -> None:
        """Stop watching a descriptor; call this before closing it."""
        if self._handlers.pop(descriptor, None) is not None:
            self._poller.unregister(descriptor)

    def serve(self, wait_s: float | None) -> None:
        """Wait up to ``wait_s`` (None: without limit) for ready descriptors, and call their handlers."""
        handlers = self._handlers
        try:
            ready = self._poller.poll(wait_s, _READY_AT_ONCE)
        except OverflowError:  # the time exceeds the system's limit
            ready = self._poller.poll(_LONGEST_S, _READY_AT_ONCE)
        for descriptor, mask in ready:
            if handler := handlers.get(descriptor):  # an earlier handler may have closed this descriptor
                handler(mask)

    def close(self) -> None:
        """May be called twice."""
        self._poller.close()


@dataclass(frozen=True, slots=True)
class LobbySettings:
    """Limits of pending connections, which have not proved their identity yet."""

    stranger_s: float = ranged(5.0, 0.1, 600, "s")
    """Time after which a pending connection is closed. A worker proves its identity within milliseconds."""
    strangers: int = ranged(128, 1, 65_536)
    """Maximum number of pending connections, above which the oldest is closed; workers never start as many at once."""
    full_pause_s: float = ranged(1.0, 0.01, 60, "s")
    """Pause in accepting connections after the process or the machine had no room for another."""


Heard = Callable[[Message], None]
"""Handles a message. Raises: OSError, ValueError or IndexError for one that this connection may not send."""


class Connection:
    """A stream connection. ``heard`` gets each message; ``lost`` is called once, if the connection breaks or receives
    malformed data.

    The connection's owner sets both callbacks; ``close`` calls neither.
    """

    def __init__(self, sock: socket.socket, readiness: Readiness, heard: Heard, lost: Callable[[], None]) -> None:
        sock.setblocking(False)
        prepare(sock)
        self.heard, self.lost = heard, lost
        self.reader = MessageReader(sock)
        self._socket, self._readiness = sock, readiness
        self._writer = MessageWriter(sock, partial(readiness.watch_writing, sock.fileno(), True))
        self.send, self.send_all = self._writer.send, self._writer.send_all
        """Send messages. Raise: OSError if the connection is broken; the next poll then also calls ``lost``."""
        readiness.watch(sock.fileno(), self._serve)

    def greet(self, message: Message, descriptors: Sequence[int]) -> None:
        """Send a short first message, with descriptors that are duplicated into the other process.

        Raises: OSError if the connection is broken.
        """
        send_with(self._socket, message, descriptors)

    def close(self) -> None:
        """May be called twice."""
        self.leave().close()

    def leave(self) -> socket.socket:
        """Stop watching the socket, and return it; the caller must close it."""
        if self._socket.fileno() >= 0:
            self._readiness.forget(self._socket.fileno())
        return self._socket

    def _serve(self, mask: int) -> None:
        try:
            if mask & WRITE:
                self._flush()
            if mask & ~WRITE:  # readable or broken; a read raises if it is broken
                for message in self.reader.read():
                    self.heard(message)
        except (EOFError, OSError, ValueError, IndexError, struct.error):  # the last three: malformed data
            self.lost()

    def _flush(self) -> None:
        self._writer.flush()
        if not self._writer.backlog:
            self._readiness.watch_writing(self._socket.fileno(), False)
