"""Items of workers on other hosts: a ZeroMQ ROUTER with CURVE that only holders of an invitation can talk to."""

from __future__ import annotations

from collections.abc import Callable

import zmq

from runtime.dispatch.events import WorkerId
from runtime.transport.guests import Guests
from runtime.transport.readiness import Readiness
from runtime.transport.wire import HEAD, Message, pack, unpack

_ZAP = "inproc://zeromq.zap.01"
"""Where ZeroMQ asks whether a key may come in (its RFC 27)."""
_DOMAIN = b"recompose"


class Router:
    def __init__(
        self, host: str, readiness: Readiness, guests: Guests, came: Callable[[WorkerId, Message], None]
    ) -> None:
        """``came`` gets what invited workers send."""
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
        """Raises: OSError when there is no connection of that routing id."""
        try:
            self._socket.send_multipart([identity, b"".join(pack(message)[0])])
        except zmq.ZMQError as error:
            raise OSError(f"a worker's ZeroMQ connection is gone: {error}") from error

    def drain(self, mask: int = 0) -> None:
        """Takes all that has come. Its descriptor tells only of what came after the last look, or the last send."""
        receive = self._socket.recv_multipart
        try:
            while True:
                self._take(*receive(zmq.NOBLOCK))
        except zmq.Again:
            return

    def close(self) -> None:
        for socket in (self._porter, self._socket):
            self._readiness.forget(int(socket.fd))
            socket.close()
        self._socket.context.term()

    def _take(self, identity: bytes, *frames: bytes) -> None:
        worker = self._guests.by_route(identity)
        if worker is not None and frames:
            body = memoryview(frames[0])
            self._came(worker, unpack(HEAD.unpack_from(body), body[HEAD.size :]))

    def _answer_porter(self, mask: int) -> None:
        """Answers all who ask whether a key may come in."""
        try:
            while True:
                asked = self._porter.recv_multipart(zmq.NOBLOCK)
                version, request_id, _domain, _address, _identity, mechanism, *credentials = asked
                known = mechanism == b"CURVE" and self._guests.has_key(credentials[0])
                status = (b"200", b"OK") if known else (b"400", b"no invitation has this key")
                self._porter.send_multipart([version, request_id, *status, b"", b""])
        except zmq.Again:
            return
