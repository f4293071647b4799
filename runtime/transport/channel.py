"""The worker's side of the transport: connect, receive and send messages. See ``runtime/transport/hub.py``."""

import select
import socket
from collections import deque
from collections.abc import Sequence

import zmq

from runtime.transport.pending import CHALLENGE_BYTES, Invitation, Network
from runtime.transport.stream import Handed, MessageReader, MessageWriter, prepare
from runtime.transport.wire import HEAD, Kind, Message, pack, pieces, plain_text, unpack


class StreamChannel:
    """Messages on the stream connection itself. Not thread-safe. ``send`` raises OSError if the hub is gone."""

    def __init__(self, sock: socket.socket, invitation: Invitation) -> None:
        self.socket = sock
        sock.settimeout(None)
        prepare(sock)
        self._poller = select.poll()  # select() only accepts descriptors below 1,024
        self._poller.register(sock, select.POLLIN)
        self._reader = MessageReader(sock)
        self.send = MessageWriter(sock).send
        self._received: deque[Message] = deque()
        self.handed: int | None = None
        """The descriptor of the arena that is shared with the hub; None without one."""
        self._introduce(invitation)

    def _introduce(self, invitation: Invitation) -> None:
        handed = Handed(self.socket)
        self._reader.receive = handed.receive
        challenge = self.receive()
        if challenge is not None and len(challenge.payload[0]) == CHALLENGE_BYTES:
            proof = invitation.proof(plain_text(challenge.payload[0]))
            self.send(Message(Kind.HELLO, payload=[invitation.worker.encode(), proof]))
            if self.receive() is not None:
                self._reader.receive = self.socket.recv_into
                self.handed = next(iter(handed.descriptors), None)
                return
        self.close()
        raise ConnectionError(f"the runner refused the connection of worker {invitation.worker}")

    @property
    def descriptors(self) -> Sequence[int]:
        """Descriptors that become readable when messages may have come. Also call ``poll`` after each ``send``, which
        may consume ZeroMQ's notification."""
        return [self.socket.fileno()]

    def poll(self) -> list[Message] | None:
        """Return the messages received so far, without waiting for another; None if the hub is gone."""
        if self._poller.poll(0):
            try:
                self._received.extend(self._reader.read())
            except (EOFError, OSError):
                return None
        came = list(self._received)
        self._received.clear()
        return came

    def receive(self) -> Message | None:
        """Wait for the next message, and return it; None if the hub is gone."""
        while not self._received:
            try:
                self._received.extend(self._reader.read())
            except (EOFError, OSError):
                return None
        return self._received.popleft()

    def close(self) -> None:
        self.socket.close()


class EncryptedChannel:
    """A channel on ZeroMQ with CURVE encryption. The end of the stream connection beside it (``lifeline``) means that
    the hub is gone.

    ZeroMQ reconnects by itself, but loses messages in flight. So the end of its connection also ends this channel and
    the worker, whose tasks then run elsewhere.
    """

    def __init__(self, lifeline: StreamChannel, network: Network, invitation: Invitation) -> None:
        self._lifeline = lifeline
        self.handed: int | None = None
        self._socket = dealer = zmq.Context().socket(zmq.DEALER)
        dealer.identity, dealer.linger = invitation.identity, 1000
        dealer.sndhwm = dealer.rcvhwm = 0
        dealer.tcp_keepalive = dealer.tcp_keepalive_idle = dealer.tcp_keepalive_intvl = 1
        dealer.tcp_keepalive_cnt = 3
        dealer.curve_serverkey = network.server_key
        dealer.curve_publickey, dealer.curve_secretkey = invitation.curve_public, invitation.curve_secret
        self._broken = dealer.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        dealer.connect(network.items_endpoint)
        self._poller = zmq.Poller()
        for source in (dealer, self._broken, lifeline.socket):
            self._poller.register(source, zmq.POLLIN)

    @property
    def descriptors(self) -> Sequence[int]:
        return [int(self._socket.fd), int(self._broken.fd), *self._lifeline.descriptors]

    def poll(self) -> list[Message] | None:
        if came := self._all():
            return came
        # ``_is_gone`` may consume the notification of messages that came meanwhile, so receive once more.
        return None if self._is_gone(0) else self._all()

    def _all(self) -> list[Message]:
        came: list[Message] = []
        try:
            while True:
                came.append(self._receive())
        except zmq.Again:
            return came

    def receive(self) -> Message | None:
        while True:
            try:
                return self._receive()
            except zmq.Again:
                if self._is_gone():
                    return None

    def _receive(self) -> Message:
        """Return a message that has come. Raises: zmq.Again if there is none."""
        first, *more = self._socket.recv_multipart(zmq.NOBLOCK, copy=False)
        # A copy: ZeroMQ's memory is read-only and not aligned, and a stage's input must not depend on the transport.
        body = bytearray().join((first.buffer[HEAD.size :], *(each.buffer for each in more)))
        return unpack(HEAD.unpack_from(first.buffer), memoryview(body))

    def _is_gone(self, timeout_ms: int | None = None) -> bool:
        """Wait for a message, the hub's end or the timeout; return whether the hub is gone."""
        ready = dict(self._poller.poll(timeout_ms))
        if self._broken in ready:
            return True
        return self._lifeline.socket.fileno() in ready and self._lifeline.receive() is None

    def send(self, message: Message) -> None:
        if int(self._broken.get(zmq.EVENTS)) & zmq.POLLIN:
            raise ConnectionError("the ZeroMQ connection to the runner broke")
        self._socket.send_multipart(pieces(pack(message)[0]))

    def close(self) -> None:
        self._socket.disable_monitor()
        self._broken.close()
        self._socket.close()
        self._socket.context.term()
        self._lifeline.close()


Channel = StreamChannel | EncryptedChannel


def connect(invitation: Invitation) -> Channel:
    """Connect to a hub, by its unix socket if that exists on this host, else by the network.

    Raises: OSError if the hub cannot be reached or refuses the connection.
    """
    if (sock := _unix_socket(invitation.unix_path)) is not None:
        return StreamChannel(sock, invitation)
    if invitation.network is None:
        raise ConnectionError(f"the runner at {invitation.unix_path} cannot be reached and has no network address")
    network = invitation.network
    lifeline = StreamChannel(socket.create_connection((network.host, network.lifeline_port), timeout=10), invitation)
    return EncryptedChannel(lifeline, network, invitation)


def _unix_socket(path: str | None) -> socket.socket | None:
    """Return a connected unix socket; None if there is none at ``path``, as the hub is on another host."""
    if path is None:
        return None
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.connect(path)
    except OSError:
        sock.close()
        return None
    return sock
