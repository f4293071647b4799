"""The pool's side of the transport: one poll over all workers, a message or the loss of a worker per entry.

Every worker keeps one stream connection to the hub, whose end is the end of the worker: a dead process shows at once.
On the hub's own host it is a unix socket in a directory of mode 0700 and carries the items as well. From another host
it is tcp and carries nothing but the proof of identity; items then travel on ZeroMQ with CURVE encryption
(docs/decisions/0002-transport.md).
"""

from __future__ import annotations

import hmac
import math
import os
import secrets
import select
import shutil
import socket
import struct
import tempfile
from collections.abc import Callable
from functools import partial

import zmq

from runtime.dispatch.events import WorkerId
from runtime.transport.invitation import Invitation, Network
from runtime.transport.stream import MessageReader, MessageWriter, prepare
from runtime.transport.wire import HEAD, Kind, Message, pack, unpack

_STRANGER_LIMIT_BYTES = 4096
_LONG_MS = 10**9
_READ, _WRITE = select.POLLIN, select.POLLOUT


class Link:
    """One stream connection, from ``accept`` on; ``worker`` is known once it proved who it is."""

    def __init__(self, sock: socket.socket, encrypted: bool) -> None:
        self.socket = sock
        self.encrypted = encrypted
        self.worker: WorkerId | None = None
        self.identity = b""
        self.challenge = secrets.token_bytes(32)
        self.reader = MessageReader(sock, _STRANGER_LIMIT_BYTES)
        self.writer = MessageWriter(sock)


class Hub:
    """Not thread-safe but for ``wake``."""

    def __init__(self, *, unix: bool = True) -> None:
        self._secret = secrets.token_bytes(32)
        self._poller = select.poll()
        self._handlers: dict[int, Callable[[int], None]] = {}
        """By file descriptor: what to call with the mask of its events."""
        self._listeners: list[socket.socket] = []
        self._links: dict[WorkerId, Link] = {}
        self._strangers: set[Link] = set()
        self._invited: dict[WorkerId, Invitation] = {}
        self._routes: dict[bytes, WorkerId] = {}
        self._inbox: list[tuple[WorkerId, Message | None]] = []
        self._router: zmq.Socket[bytes] | None = None
        self._network: Network | None = None
        self._directory = tempfile.mkdtemp(prefix="recompose-")
        self._unix_path = os.path.join(self._directory, "items") if unix else None
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)
        self._register(self._wake_out.fileno(), self._swallow_wake)
        if self._unix_path:
            self._listen(socket.AF_UNIX, self._unix_path, encrypted=False)

    def open_network(self, host: str) -> None:
        """Listens on ``host`` as well, from now on; a second call changes nothing."""
        if self._network:
            return
        port = self._listen(socket.AF_INET, (host, 0), encrypted=True).getsockname()[1]
        public, private = zmq.curve_keypair()
        router = zmq.Context().socket(zmq.ROUTER)
        router.curve_server, router.curve_secretkey = True, private
        router.router_mandatory, router.linger = True, 0
        router.sndhwm = router.rcvhwm = 0  # the dispatcher limits what is outstanding
        endpoint_port = router.bind_to_random_port(f"tcp://{host}")
        self._register(int(router.fd), self._drain_router)
        self._router, self._network = router, Network(host, port, f"tcp://{host}:{endpoint_port}", public)

    def invite(self, worker: WorkerId) -> Invitation:
        invitation = Invitation(worker, self._secret, self._unix_path, self._network)
        self._invited[worker] = invitation
        self._routes[invitation.identity] = worker
        return invitation

    def send(self, worker: WorkerId, message: Message) -> None:
        """Hands a message over. For a worker whose loss ``poll`` has told or will tell, it is dropped."""
        link = self._links.get(worker)
        if link is None:
            return
        if link.encrypted:
            self._send_routed(link, message)
            return
        try:
            link.writer.send(message)
        except OSError:
            return  # the reading side notices the same and reports it
        if link.writer.pending:
            self._poller.modify(link.socket, _READ | _WRITE)

    def poll(self, timeout_s: float | None) -> list[tuple[WorkerId, Message | None]]:
        """All that has come, in order; ``None`` for a message is the loss of the worker. Blocks for the first."""
        if self._router is not None:
            self._drain_router()  # its descriptor tells only of what came after the last look
        wait_ms = 0 if self._inbox else None if timeout_s is None else min(_LONG_MS, math.ceil(timeout_s * 1000))
        for descriptor, mask in self._poller.poll(wait_ms):
            self._handlers[descriptor](mask)
        inbox, self._inbox = self._inbox, []
        return inbox

    def wake(self) -> None:
        """Makes a ``poll`` under way return. From any thread, also after ``close``."""
        try:
            self._wake_in.send(b"\0")
        except OSError:
            pass  # it is closed, or there are wakes enough

    def drop(self, worker: WorkerId) -> None:
        """Closes a worker's connection, which ends an idle one, and takes its invitation back; reports nothing."""
        self._uninvite(worker)
        link = self._links.pop(worker, None)
        if link is not None:
            self._forget(link)

    def close(self) -> None:
        """Closes everything and removes the directory; may be called twice."""
        for link in [*self._links.values(), *self._strangers]:
            self._forget(link)
        self._links.clear()
        if self._router is not None:
            self._router.close()
            self._router.context.term()
            self._router = None
        for sock in (*self._listeners, self._wake_in, self._wake_out):
            sock.close()
        self._handlers.clear()
        shutil.rmtree(self._directory, ignore_errors=True)

    # --- what poll calls ------------------------------------------------------------------------------------------

    def _listen(self, family: int, address: str | tuple[str, int], encrypted: bool) -> socket.socket:
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.bind(address)
        listener.listen(128)
        listener.setblocking(False)
        self._listeners.append(listener)
        self._register(listener.fileno(), partial(self._accept, listener, encrypted))
        return listener

    def _register(self, descriptor: int, handler: Callable[[int], None]) -> None:
        self._handlers[descriptor] = handler
        self._poller.register(descriptor, _READ)

    def _accept(self, listener: socket.socket, encrypted: bool, mask: int) -> None:
        try:
            sock, _ = listener.accept()
        except OSError:
            return  # it hung up before we answered
        sock.setblocking(False)
        prepare(sock)
        link = Link(sock, encrypted)
        self._strangers.add(link)
        self._register(sock.fileno(), partial(self._serve, link))
        self._serve(link, 0, Message(Kind.HELLO, payload=[link.challenge]))

    def _serve(self, link: Link, mask: int, greeting: Message | None = None) -> None:
        try:
            if greeting is not None:
                link.writer.send(greeting)
            if mask & _WRITE:
                link.writer.flush()
                if not link.writer.pending:
                    self._poller.modify(link.socket, _READ)
            if mask & ~_WRITE:  # readable, or broken: reading tells
                for message in link.reader.read():
                    self._take(link, message)
        except (EOFError, OSError, ValueError, IndexError, struct.error):  # the last three: not our language
            self._lose(link)

    def _take(self, link: Link, message: Message) -> None:
        if link.worker is not None:
            self._inbox.append((link.worker, message))
        else:
            self._admit(link, message)

    def _admit(self, link: Link, message: Message) -> None:
        name, proof = (bytes(frame) for frame in message.payload)
        worker = name.decode()
        invitation = self._invited.get(worker)
        if invitation is None or worker in self._links:
            raise OSError(f"{worker!r} is not expected")
        if not hmac.compare_digest(invitation.proof(link.challenge), proof):
            raise OSError(f"{worker!r} does not have its invitation")
        link.worker, link.identity = worker, invitation.identity
        link.reader.limit_bytes = float("inf")
        self._strangers.discard(link)
        self._links[worker] = link
        link.writer.send(Message(Kind.HELLO))

    def _lose(self, link: Link) -> None:
        self._forget(link)
        if link.worker is not None and self._links.pop(link.worker, None) is not None:
            self._uninvite(link.worker)
            self._inbox.append((link.worker, None))

    def _forget(self, link: Link) -> None:
        self._strangers.discard(link)
        self._poller.unregister(link.socket)
        del self._handlers[link.socket.fileno()]
        link.socket.close()

    def _uninvite(self, worker: WorkerId) -> None:
        invitation = self._invited.pop(worker, None)
        if invitation is not None:
            del self._routes[invitation.identity]

    def _swallow_wake(self, mask: int) -> None:
        self._wake_out.recv(4096)

    # --- the encrypted way ---------------------------------------------------------------------------------------

    def _send_routed(self, link: Link, message: Message) -> None:
        assert self._router is not None, "only a worker that came by the network is encrypted"
        try:
            self._router.send_multipart([link.identity, b"".join(pack(message)[0])])
        except zmq.ZMQError:
            pass  # unreachable: its lifeline tells the same

    def _drain_router(self, mask: int = 0) -> None:
        assert self._router is not None, "registered with it"
        while True:
            try:
                identity, *frames = self._router.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            worker = self._routes.get(identity)
            if worker in self._links and frames:
                body = memoryview(frames[0])
                self._inbox.append((worker, unpack(HEAD.unpack_from(body), body[HEAD.size :])))
