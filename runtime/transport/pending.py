"""Pending connections: each may stay for a limited time, and only so many at once, until it has proved its identity."""

import errno
import hmac
import math
import secrets
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import zmq
from zmq.utils import z85

from runtime.dispatch.events import WorkerId
from runtime.transport.connection import Connection, LobbySettings, Readiness
from runtime.transport.wire import Kind, Message, plain_text

SECRET_BYTES = CHALLENGE_BYTES = 32
_PROOF, _ROUTING_ID, _CURVE_KEY = b"recompose proof", b"recompose routing id", b"recompose curve key"


@dataclass(frozen=True, slots=True)
class Network:
    """The address and keys that another host needs to reach a hub."""

    host: str
    lifeline_port: int
    items_endpoint: str
    server_key: bytes


@dataclass(frozen=True, slots=True)
class Invitation:
    """All that a worker needs to connect; picklable. At least one of ``unix_path`` and ``network`` is given."""

    worker: WorkerId
    secret: bytes = field(repr=False)
    unix_path: str | None
    network: Network | None

    def proof(self, challenge: bytes) -> bytes:
        """Shows that the invited worker answers this challenge."""
        return self._derived(_PROOF, challenge + self.worker.encode())

    @property
    def identity(self) -> bytes:
        """The worker's ZeroMQ routing id; nobody else can name it. A zero byte first is reserved."""
        return b"w" + self._derived(_ROUTING_ID)

    @property
    def curve_secret(self) -> bytes:
        """The worker's secret CURVE key, as ZeroMQ writes it."""
        encoded: bytes = z85.encode(self._derived(_CURVE_KEY))
        return encoded

    @property
    def curve_public(self) -> bytes:
        """The key by which the hub knows the worker's ZeroMQ connection."""
        return zmq.curve_public(self.curve_secret)

    def _derived(self, label: bytes, data: bytes = b"") -> bytes:
        return hmac.digest(self.secret, label + b"\0" + data, "sha256")


class Guests:
    """The invitations that are still good."""

    def __init__(self) -> None:
        self._invitations: dict[WorkerId, Invitation] = {}
        self._routes: dict[bytes, WorkerId] = {}
        self._keys: set[bytes] = set()

    def invite(self, worker: WorkerId, unix_path: str | None, network: Network | None) -> Invitation:
        invitation = Invitation(worker, secrets.token_bytes(SECRET_BYTES), unix_path, network)
        self._invitations[worker] = invitation
        if network is not None:
            self._routes[invitation.identity] = worker
            self._keys.add(z85.decode(invitation.curve_public))
        return invitation

    def expel(self, worker: WorkerId) -> None:
        """Takes an invitation back."""
        invitation = self._invitations.pop(worker, None)
        if invitation is not None and invitation.network is not None:
            del self._routes[invitation.identity]
            self._keys.discard(z85.decode(invitation.curve_public))

    def admit(self, worker: WorkerId, challenge: bytes, proof: bytes) -> Invitation:
        """Raises: OSError for a worker that was not invited, or a proof that is not its own."""
        invitation = self._invitations.get(worker)
        if invitation is None:
            raise OSError(f"{worker!r} is not expected")
        if not hmac.compare_digest(invitation.proof(challenge), proof):
            raise OSError(f"{worker!r} does not have its invitation")
        return invitation

    def by_route(self, identity: bytes) -> WorkerId | None:
        return self._routes.get(identity)

    def has_key(self, key: bytes) -> bool:
        """Return whether a CURVE key (32 bytes) is of an invitation."""
        return key in self._keys


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
