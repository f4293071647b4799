"""A stream connection in a hub's poll: whole messages in, messages out, also when the other side is slow."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Sequence
from functools import partial

from runtime.transport.readiness import WRITE, Readiness
from runtime.transport.stream import MessageReader, MessageWriter, prepare, send_with
from runtime.transport.wire import Message

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
