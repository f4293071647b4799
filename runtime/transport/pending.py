"""Pending connections: each may stay for a limited time, and only so many at once, until it has proved its identity."""

from __future__ import annotations

import errno
import math
import secrets
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from runtime.dispatch.events import WorkerId
from runtime.transport.connection import Connection, LobbySettings, Readiness
from runtime.transport.credentials import CHALLENGE_BYTES
from runtime.transport.wire import Kind, Message, plain_text

_MESSAGE_LIMIT_BYTES = 4096
_HANG_UPS = (errno.ECONNABORTED, errno.EAGAIN, errno.EINTR)

Admit = Callable[[Connection, WorkerId, bytes, bytes], Sequence[int]]
"""Gets a connection, whom it says it is, the challenge and its proof; returns the descriptors that it is handed.

Raises: OSError for one that may not come in."""


@dataclass(slots=True, eq=False)
class _Stranger:
    leave_by_s: float
    challenge: bytes
    connection: Connection | None = None


class Lobby:
    def __init__(self, readiness: Readiness, clock: Callable[[], float], settings: LobbySettings) -> None:
        self._readiness, self._clock, self._settings = readiness, clock, settings
        self._doors: dict[socket.socket, Admit] = {}
        self._strangers: dict[_Stranger, None] = {}
        """In the order they came, and so in that of their deadlines."""
        self._open_again_s = math.inf
        """The doors are shut until then; infinite: they are open."""
        self.due_s = math.inf
        """When ``tidy`` has something to do; infinite when nothing is to come. Asked for at every message."""

    def open(self, family: int, address: str | tuple[str, int], admit: Admit) -> socket.socket:
        """Listens, from now on."""
        door = socket.socket(family, socket.SOCK_STREAM)
        door.bind(address)
        door.listen(128)
        door.setblocking(False)
        self._doors[door] = admit
        self._watch(door)
        return door

    def tidy(self) -> None:
        """Closes whoever has waited for too long, and opens the doors again when it is time."""
        now_s = self._clock()
        for stranger in [each for each in self._strangers if now_s >= each.leave_by_s]:
            self._dismiss(stranger)
        if now_s >= self._open_again_s:
            self._open_again_s = math.inf
            for door in self._doors:
                self._watch(door)
        self._plan()

    def close(self) -> None:
        """May be called twice."""
        for stranger in list(self._strangers):
            self._dismiss(stranger)
        for door in self._doors:
            self._readiness.forget(door.fileno())
            door.close()
        self._doors.clear()

    def _watch(self, door: socket.socket) -> None:
        self._readiness.watch(door.fileno(), partial(self._enter, door))

    def _enter(self, door: socket.socket, mask: int) -> None:
        try:
            sock, _ = door.accept()
        except OSError as error:
            if error.errno not in _HANG_UPS:  # no descriptors, no memory: to ask again at once would be all we do
                self._shut()
            return
        self._receive(sock, self._doors[door])

    def _receive(self, sock: socket.socket, admit: Admit) -> None:
        settings = self._settings
        stranger = _Stranger(self._clock() + settings.stranger_s, secrets.token_bytes(CHALLENGE_BYTES))
        dismiss = partial(self._dismiss, stranger)
        stranger.connection = Connection(sock, self._readiness, partial(self._hear, stranger, admit), dismiss)
        stranger.connection.reader.limit_bytes = _MESSAGE_LIMIT_BYTES
        self._strangers[stranger] = None
        self._plan()
        if len(self._strangers) > settings.strangers:
            self._dismiss(next(iter(self._strangers)))
        try:
            stranger.connection.send(Message(Kind.HELLO, payload=[stranger.challenge]))
        except OSError:
            dismiss()

    def _hear(self, stranger: _Stranger, admit: Admit, message: Message) -> None:
        name, proof = map(plain_text, message.payload)
        connection = stranger.connection
        assert connection is not None, "it has sent something"
        handed = admit(connection, name.decode(), stranger.challenge, proof)
        del self._strangers[stranger]
        self._plan()
        connection.reader.limit_bytes = math.inf
        connection.greet(Message(Kind.HELLO), handed)

    def _dismiss(self, stranger: _Stranger) -> None:
        self._strangers.pop(stranger, None)
        self._plan()
        if stranger.connection is not None:
            stranger.connection.close()

    def _shut(self) -> None:
        self._open_again_s = self._clock() + self._settings.full_pause_s
        self._plan()
        for door in self._doors:
            self._readiness.forget(door.fileno())

    def _plan(self) -> None:
        first = next(iter(self._strangers), None)
        self.due_s = min(self._open_again_s, math.inf if first is None else first.leave_by_s)
