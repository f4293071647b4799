"""The pool's side of the transport: one poll for all workers returns their messages and their losses.

Every worker keeps one stream connection to the hub, whose end means the end of the worker, so a dead process is noticed
at once. On the hub's own host the connection is a unix socket in a directory of mode 0700, which also carries the
items. From another host it is TCP and carries only the proof of identity; items then travel on ZeroMQ with CURVE
encryption (docs/decisions/0002-transport.md).
"""

import math
import os
import shutil
import socket
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from time import monotonic

import zmq

from runtime.arena.reference import ArenaSettings
from runtime.dispatch.events import WorkerId
from runtime.housekeeping import make_folder
from runtime.transport.account import Account, Accounts
from runtime.transport.connection import Connection, LobbySettings, Readiness
from runtime.transport.pending import Guests, Invitation, Lobby, Network
from runtime.transport.wire import HEAD, Kind, Message, pack, pieces, unpack

_ANSWERS = (Kind.DONE, Kind.PARTLY, Kind.FAILED)


Deliver = Callable[[tuple[WorkerId, Message]], None]
"""Called with each message and the worker that sent it."""


class PlainLink:
    """A link whose items travel on the stream connection; large frames as references if the worker has an account."""

    def __init__(self, connection: Connection, worker: WorkerId, deliver: Deliver, account: Account | None) -> None:
        self._connection, self._worker, self._deliver, self._account = connection, worker, deliver, account
        connection.heard = self.came

    def send(self, messages: Sequence[Message]) -> None:
        if self._account is not None:
            messages = self._account.going(messages)
        try:
            if len(messages) == 1:
                self._connection.send(messages[0])
            else:
                self._connection.send_all(messages)
        except OSError:
            pass  # the poll first reads the worker's last messages, and then notices its end

    def came(self, message: Message) -> None:
        self._deliver((self._worker, message if self._account is None else self._account.came(message)))

    def close(self) -> None:
        if self._account is None:
            self._connection.close()
        else:
            self._account.close(self._connection.leave())


class EncryptedLink:
    """A link whose items travel on ZeroMQ. The stream connection signals only the worker's end and carries no messages.

    A broken ZeroMQ connection loses the messages in flight and reconnects silently. The worker ends when it notices
    that (``EncryptedChannel``). Until then, sending it a message raises if the message cannot be routed. A lost message
    is noticed when the answer to a later task comes first, as workers answer in order. Workers with concurrent tasks
    answer in any order; there, a lost task is noticed at its time limit.
    """

    def __init__(
        self,
        connection: Connection,
        worker: WorkerId,
        route: Callable[[Message], None],
        deliver: Deliver,
        in_full: Callable[[Message], Message],
    ) -> None:
        """``in_full``: replaces references to shared memory in a message by bytes."""
        self._connection = connection
        connection.heard = self._refuse
        self._worker, self._route, self._deliver, self._in_full = worker, route, deliver, in_full
        self._asked: deque[int] = deque()
        """Unanswered tasks, in the order of sending."""
        self._in_order = True

    def send(self, messages: Sequence[Message]) -> None:
        """Send messages. Raises: OSError if one cannot be delivered, which no other check would notice."""
        for message in messages:
            if message.kind == Kind.TASK:
                self._asked.append(message.task_id)
            self._route(self._in_full(message))

    def came(self, message: Message) -> None:
        """Handle a message from ZeroMQ. Raises: OSError if it shows that an earlier message was lost."""
        if message.kind == Kind.READY:
            self._in_order = message.items > 0
        elif message.kind in _ANSWERS and message.task_id in self._asked:
            head = self._asked[0]
            self._asked.remove(message.task_id)
            if self._in_order and head != message.task_id:
                raise OSError(f"task {head} was lost on its way: the answer to {message.task_id} came first")
        self._deliver((self._worker, message))

    def close(self) -> None:
        self._connection.close()

    @staticmethod
    def _refuse(message: Message) -> None:
        raise OSError(f"a worker with an encrypted connection sent an unencrypted message of kind {message.kind}")


Link = PlainLink | EncryptedLink

_ZAP = "inproc://zeromq.zap.01"
"""The address at which ZeroMQ asks whether to accept a key (its RFC 27)."""
_DOMAIN = b"recompose"


class Router:
    def __init__(
        self, host: str, readiness: Readiness, guests: Guests, came: Callable[[WorkerId, Message], None]
    ) -> None:
        """``came`` is called with each message of an expected worker."""
        self._guests, self._came, self._readiness = guests, came, readiness
        self.server_key, private = zmq.curve_keypair()
        context = zmq.Context()
        self._porter = context.socket(zmq.REP)
        self._porter.linger = 0
        self._porter.bind(_ZAP)
        self._socket = router = context.socket(zmq.ROUTER)
        router.curve_server, router.curve_secretkey, router.zap_domain = True, private, _DOMAIN
        router.router_mandatory, router.linger = True, 0
        router.sndhwm = router.rcvhwm = 0  # the dispatcher limits what is outstanding
        self.endpoint = f"tcp://{host}:{router.bind_to_random_port(f'tcp://{host}')}"
        readiness.watch(int(self._porter.fd), self._answer_porter)
        readiness.watch(int(router.fd), self.drain)

    def send(self, identity: bytes, message: Message) -> None:
        """Send a message to a routing id. Raises: OSError if no connection has this id."""
        try:
            self._socket.send_multipart([identity, *pieces(pack(message)[0])])
        except zmq.ZMQError as error:
            raise OSError(f"a worker's ZeroMQ connection is gone: {error}") from error

    def drain(self, mask: int = 0) -> None:
        """Receive all waiting messages. The descriptor signals only messages after the last receive or send."""
        receive = self._socket.recv_multipart
        with suppress(zmq.Again):
            while True:
                self._take(*receive(zmq.NOBLOCK, copy=False))

    def close(self) -> None:
        for each in (self._porter, self._socket):
            self._readiness.forget(int(each.fd))
            each.close()
        self._socket.context.term()

    def _take(self, identity: zmq.Frame, *frames: zmq.Frame) -> None:
        worker = self._guests.by_route(identity.bytes)
        if worker is not None and frames:
            body = memoryview(frames[0].bytes if len(frames) == 1 else b"".join(each.buffer for each in frames))
            self._came(worker, unpack(HEAD.unpack_from(body), body[HEAD.size :]))

    def _answer_porter(self, mask: int) -> None:
        """Answer ZeroMQ's questions whether to accept a key."""
        with suppress(zmq.Again):
            while True:
                asked = self._porter.recv_multipart(zmq.NOBLOCK)
                version, request_id, _domain, _address, _identity, mechanism, *credentials = asked
                known = mechanism == b"CURVE" and self._guests.has_key(credentials[0])
                status = (b"200", b"OK") if known else (b"400", b"no invitation has this key")
                self._porter.send_multipart([version, request_id, *status, b"", b""])


Received = tuple[WorkerId, Message | None]


class Hub:
    """Connects a pool with its workers. Only ``wake`` is thread-safe."""

    def __init__(
        self,
        *,
        unix: bool = True,
        settings: LobbySettings | None = None,
        arena: ArenaSettings | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """``arena``: settings of the memory shared with workers on this host; None: frames are copied."""
        self._clock = clock
        self.accounts = Accounts.opened(arena if unix else None)
        self._guests = Guests()
        self._readiness = Readiness()
        self._lobby = Lobby(self._readiness, clock, settings or LobbySettings())
        self._links: dict[WorkerId, Link] = {}
        self._inbox: list[Received] = []
        self._router: Router | None = None
        self._network: Network | None = None
        self._directory = make_folder()
        self._unix_path = os.path.join(self._directory, "items") if unix else None
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)
        self._readiness.watch(self._wake_out.fileno(), lambda _: self._wake_out.recv(4096))
        if self._unix_path:
            self._lobby.open(socket.AF_UNIX, self._unix_path, self._admit_plain)

    def open_network(self, host: str) -> None:
        """Also listen on address ``host``; a second call does nothing."""
        if self._network:
            return
        router = Router(host, self._readiness, self._guests, self._came)
        door = self._lobby.open(socket.AF_INET, (host, 0), partial(self._admit_encrypted, router))
        self._router = router
        self._network = Network(host, door.getsockname()[1], router.endpoint, router.server_key)

    def invite(self, worker: WorkerId) -> Invitation:
        return self._guests.invite(worker, self._unix_path, self._network)

    def send(self, worker: WorkerId, messages: Sequence[Message]) -> None:
        """Send messages to a worker. If one cannot be delivered, the worker counts as lost, which ``poll`` reports."""
        link = self._links.get(worker)
        if link is None:
            return
        try:
            link.send(messages)
        except OSError:
            self._lose(worker)

    def poll(self, timeout_s: float | None) -> list[Received]:
        """Wait up to ``timeout_s`` (None: without limit); return all messages, in order. None: the worker was lost."""
        if self._router is not None:
            self._router.drain()
        if self._lobby.due_s < math.inf:
            until_due_s = max(0.0, self._lobby.due_s - self._clock())
            timeout_s = until_due_s if timeout_s is None else min(timeout_s, until_due_s)
        self._readiness.serve(0 if self._inbox else timeout_s)
        if self._lobby.due_s < math.inf and self._clock() >= self._lobby.due_s:
            self._lobby.tidy()
        received = self._inbox[:]
        self._inbox.clear()
        return received

    def wake(self) -> None:
        """Make a ``poll`` under way return. May be called from any thread, also after ``close``."""
        with suppress(OSError):  # the hub is closed, or enough wakes are waiting
            self._wake_in.send(b"\0")

    def drop(self, worker: WorkerId) -> None:
        """Close a worker's connection (an idle worker then ends), and revoke its credentials, without a report."""
        self._guests.expel(worker)
        if link := self._links.pop(worker, None):
            link.close()

    def close(self) -> None:
        """Close all connections, and remove the directory; may be called twice."""
        for link in self._links.values():
            link.close()
        self._links.clear()
        self._lobby.close()
        if self._router is not None:
            self._router.close()
            self._router = None
        for sock in (self._wake_in, self._wake_out):
            sock.close()
        self._readiness.close()
        self.accounts.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    # --- workers that come and go -----------------------------------------------------------------------------------

    def _admit_plain(self, connection: Connection, worker: WorkerId, challenge: bytes, proof: bytes) -> Sequence[int]:
        self._check(worker, challenge, proof)
        account = self.accounts.open()
        self._welcome(connection, worker, PlainLink(connection, worker, self._inbox.append, account))
        return self.accounts.handed

    def _admit_encrypted(
        self, router: Router, connection: Connection, worker: WorkerId, challenge: bytes, proof: bytes
    ) -> Sequence[int]:
        route = partial(router.send, self._check(worker, challenge, proof).identity)
        link = EncryptedLink(connection, worker, route, self._inbox.append, self.accounts.in_full)
        self._welcome(connection, worker, link)
        return ()

    def _check(self, worker: WorkerId, challenge: bytes, proof: bytes) -> Invitation:
        if worker in self._links:
            raise OSError(f"worker {worker!r} is already connected")
        return self._guests.admit(worker, challenge, proof)

    def _welcome(self, connection: Connection, worker: WorkerId, link: Link) -> None:
        connection.lost = partial(self._lose, worker)
        self._links[worker] = link

    def _came(self, worker: WorkerId, message: Message) -> None:
        """Handle a message from the router; ignore one of a worker that is lost or has not proved its identity."""
        if link := self._links.get(worker):
            try:
                link.came(message)
            except OSError:
                self._lose(worker)

    def _lose(self, worker: WorkerId) -> None:
        if worker in self._links:
            self.drop(worker)
            self._inbox.append((worker, None))
