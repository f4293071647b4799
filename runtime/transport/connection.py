"""A stream connection in a hub's poll, and the poll: whole messages in, messages out, also to a slow side."""

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
"""Gets the mask of the events of its descriptor."""
_READY_AT_ONCE = 256
_LONGEST_S = 10**6


class Readiness:
    def __init__(self) -> None:
        self._poller = select.epoll()
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


@dataclass(frozen=True, slots=True)
class LobbySettings:
    stranger_s: float = ranged(5.0, 0.1, 600, "s")
    """A connection that has not proved itself after so long is closed. An invited worker takes milliseconds."""
    strangers: int = ranged(128, 1, 65_536)
    """More than this at a time, and the one that has waited longest is closed: more than workers ever start at once."""
    full_pause_s: float = ranged(1.0, 0.01, 60, "s")
    """No connection is taken for so long when the process or the machine has no room for another."""


Heard = Callable[[Message], None]
"""Raises: OSError, ValueError or IndexError for a message that this connection may not send."""


class Connection:
    """``heard`` gets each message, ``lost`` is called once when the connection broke or what came is not our language.

    Who owns the connection sets both; ``close`` calls neither.
    """

    def __init__(self, sock: socket.socket, readiness: Readiness, heard: Heard, lost: Callable[[], None]) -> None:
        sock.setblocking(False)
        prepare(sock)
        self.heard, self.lost = heard, lost
        self.reader = MessageReader(sock)
        self._socket, self._readiness = sock, readiness
        self._writer = MessageWriter(sock, partial(readiness.watch_writing, sock.fileno(), True))
        self.send, self.send_all = self._writer.send, self._writer.send_all
        """Raise: OSError when the connection is broken; ``lost`` is called as well, by the next poll."""
        readiness.watch(sock.fileno(), self._serve)

    def greet(self, message: Message, descriptors: Sequence[int]) -> None:
        """Sends a short message before any other, with descriptors that the other side gets as its own.

        Raises: OSError when the connection is broken.
        """
        send_with(self._socket, message, descriptors)

    def close(self) -> None:
        """May be called twice."""
        self.leave().close()

    def leave(self) -> socket.socket:
        """The socket, which is no longer ours to read and to close."""
        if self._socket.fileno() >= 0:
            self._readiness.forget(self._socket.fileno())
        return self._socket

    def _serve(self, mask: int) -> None:
        try:
            if mask & WRITE:
                self._flush()
            if mask & ~WRITE:  # readable, or broken: reading tells
                for message in self.reader.read():
                    self.heard(message)
        except (EOFError, OSError, ValueError, IndexError, struct.error):  # the last three: not our language
            self.lost()

    def _flush(self) -> None:
        self._writer.flush()
        if not self._writer.backlog:
            self._readiness.watch_writing(self._socket.fileno(), False)
