"""Pending connections, which have not proved their identity yet: limited in number and in time."""

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
    """The addresses and the key that a worker on another host needs to reach a hub. ``lifeline_port``: the port of the
    plain connection whose end means that the worker has ended."""

    host: str
    lifeline_port: int
    items_endpoint: str
    server_key: bytes


@dataclass(frozen=True, slots=True)
class Invitation:
    """A worker's credentials and the hub's address; picklable. ``unix_path``, ``network`` or both are set."""

    worker: WorkerId
    secret: bytes = field(repr=False)
    unix_path: str | None
    network: Network | None

    def proof(self, challenge: bytes) -> bytes:
        """Return the answer to a challenge, which proves that the worker has the secret."""
        return self._derived(_PROOF, challenge + self.worker.encode())

    @property
    def identity(self) -> bytes:
        """The worker's ZeroMQ routing id, which others cannot guess. ZeroMQ reserves ids with a leading zero byte."""
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
    """The allowlist: the workers that may connect, with their credentials (invitations)."""

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
        """Revoke a worker's credentials."""
        invitation = self._invitations.pop(worker, None)
        if invitation is not None and invitation.network is not None:
            del self._routes[invitation.identity]
            self._keys.discard(z85.decode(invitation.curve_public))

    def admit(self, worker: WorkerId, challenge: bytes, proof: bytes) -> Invitation:
        """Return a worker's credentials. Raises: OSError if the worker is not on the list, or its proof is wrong."""
        invitation = self._invitations.get(worker)
        if invitation is None:
            raise OSError(f"no connection is expected from worker {worker!r}")
        if not hmac.compare_digest(invitation.proof(challenge), proof):
            raise OSError(f"a connection that claims to be worker {worker!r} has the wrong secret")
        return invitation

    def by_route(self, identity: bytes) -> WorkerId | None:
        return self._routes.get(identity)

    def has_key(self, key: bytes) -> bool:
        """Return whether a CURVE key (32 bytes) belongs to a worker on the list."""
        return key in self._keys


_MESSAGE_LIMIT_BYTES = 4096
_HANG_UPS = (errno.ECONNABORTED, errno.EAGAIN, errno.EINTR)

Admit = Callable[[Connection, WorkerId, bytes, bytes], Sequence[int]]
"""Called with a connection, the worker that it claims to be, the challenge and the proof; returns descriptors for it.

Raises: OSError if the connection is refused."""


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
        """Pending connections, in the order of arrival and thus of their deadlines."""
        self._open_again_s = math.inf
        """Time until which no connections are accepted; infinite: they are accepted now."""
        self.due_s = math.inf
        """Time of the next call of ``tidy``; infinite: none is needed. An attribute, as every message reads it."""

    def open(self, family: int, address: str | tuple[str, int], admit: Admit) -> socket.socket:
        door = socket.socket(family, socket.SOCK_STREAM)
        door.bind(address)
        door.listen(128)
        door.setblocking(False)
        self._doors[door] = admit
        self._watch(door)
        return door

    def tidy(self) -> None:
        """Close overdue pending connections, and accept connections again after a pause."""
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
            if error.errno not in _HANG_UPS:  # no descriptors or memory: retrying at once would be a busy loop
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
