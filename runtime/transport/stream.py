"""Send and receive messages over a stream socket, blocking or not, without an extra thread."""

import math
import socket
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice

from runtime.transport.values import Frame
from runtime.transport.wire import HEAD, Message, pack, pack_alone, unpack, unpack_alone

_JOIN_UP_TO_BYTES = 32 * 1024
_BUFFER_BYTES = 64 * 1024
_OWN_ALONE = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
"""Flag that keeps received descriptors from programs that this process starts; only Linux has it."""
_PARTS_A_CALL = 256  # the kernel takes at most 1024


def prepare(sock: socket.socket) -> None:
    """Set large kernel buffers (a video frame in few calls); on TCP, no delay and keepalives that detect lost peers."""
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        sock.setsockopt(socket.SOL_SOCKET, option, 1 << 20)
    if sock.family in (socket.AF_INET, socket.AF_INET6):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (("TCP_KEEPIDLE", 1), ("TCP_KEEPINTVL", 1), ("TCP_KEEPCNT", 3)):
            if hasattr(socket, name):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def send_with(sock: socket.socket, message: Message, descriptors: Sequence[int]) -> None:
    """Send a short message at once, with descriptors if it is a unix socket. Raises: OSError if it cannot be sent."""
    parts, size = pack(message)
    sent = socket.send_fds(sock, parts, descriptors) if descriptors else sock.sendmsg(parts)
    if sent < size:
        raise OSError("the send buffer of the connection has no room for a short message")


class Handed:
    """Receives from a unix socket, and keeps the descriptors that came with the data."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self.descriptors: list[int] = []

    def receive(self, buffer: memoryview) -> int:
        received, extras, _, _ = self._socket.recvmsg_into([buffer], socket.CMSG_SPACE(4), _OWN_ALONE)
        for level, kind, data in extras:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                self.descriptors += array("i", data)
        return received


class MessageWriter:
    """Sends messages in order; data that the socket does not take at once waits in ``backlog`` for ``flush``."""

    def __init__(self, sock: socket.socket, waits: Callable[[], None] = lambda: None) -> None:
        """``waits`` is called whenever data is left in the backlog."""
        self._socket, self._waits = sock, waits
        self.backlog: deque[memoryview] = deque()

    def send(self, message: Message) -> None:
        """Send one message. Raises: OSError if the connection is broken."""
        data = None if self.backlog else pack_alone(message)
        if data is None:
            self.send_all((message,))
        else:
            self._write(data)

    def send_all(self, messages: Sequence[Message]) -> None:
        """Send messages, small ones together in one system call. Raises: OSError if the connection is broken."""
        parts: list[Frame] = []
        for message in messages:
            data = pack_alone(message)
            if data is None:
                parts += pack(message)[0]
            else:
                parts.append(data)
        if sum(map(len, parts)) <= _JOIN_UP_TO_BYTES and not self.backlog:
            self._write(b"".join(parts))
            return
        self.backlog.extend(map(memoryview, parts))
        self.flush()

    def _write(self, data: bytes) -> None:
        try:
            written = self._socket.send(data)
        except BlockingIOError:
            written = 0
        if written < len(data):
            self.backlog.append(memoryview(data)[written:])
            self.flush()

    def flush(self) -> None:
        """Write as much of the backlog as the socket takes (all, if it blocks). Raises: OSError if it is broken."""
        backlog = self.backlog
        while backlog:
            try:
                written = self._socket.sendmsg(list(islice(backlog, _PARTS_A_CALL)))
            except BlockingIOError:
                self._waits()
                return
            while backlog and written >= len(backlog[0]):
                written -= len(backlog.popleft())
            if written:
                backlog[0] = backlog[0][written:]


class MessageReader:
    """Receives messages: small ones into a common buffer, a large one into its own memory."""

    def __init__(self, sock: socket.socket, limit_bytes: float = math.inf) -> None:
        self.limit_bytes = limit_bytes
        """Maximum size of a message; low for a connection that has not proved its identity."""
        self.receive: Callable[[memoryview], int] = sock.recv_into
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))
        self._filled = 0
        self._large: memoryview | None = None
        self._large_head: tuple[int, ...] = ()
        self._large_filled = 0

    def read(self) -> list[Message]:
        """Receive once, and return the messages that are complete, perhaps none.

        Raises: EOFError if the other side has closed the connection; OSError if it broke or a message exceeds the
        limit; ValueError or struct.error for malformed data.
        """
        if self._large is None:
            try:
                received = self.receive(self._buffer[self._filled :] if self._filled else self._buffer)
            except BlockingIOError:
                return []
            if not received:
                raise EOFError("the other side has closed the connection")
            self._filled += received
            messages = self._cut_complete()
            if self._large is None:
                return messages
        else:
            messages = []
        return messages + self._read_large(self._large)

    def _cut_complete(self) -> list[Message]:
        messages: list[Message] = []
        start, filled, buffer = 0, self._filled, self._buffer
        while filled - start >= HEAD.size:
            head = HEAD.unpack_from(buffer, start)
            begin = start + HEAD.size
            end = begin + head[0]
            if end > filled:
                if not self._begin_large(head, begin, end - start):
                    break
                return messages
            message = unpack_alone(head, buffer, begin)
            if message is None:
                # A copy in a bytearray, so that the stage's input is its own and writable, as without a transport.
                message = unpack(head, memoryview(bytearray(buffer[begin:end])))
            messages.append(message)
            start = end
        self._filled = filled - start
        if self._filled:
            buffer[: self._filled] = buffer[start:filled]
        return messages

    def _begin_large(self, head: tuple[int, ...], begin: int, size: int) -> bool:
        """Return whether the message at ``begin`` needs its own memory; if so, move the part received so far there."""
        if size > self.limit_bytes:
            raise OSError(f"a message of {size} bytes was announced; at most {self.limit_bytes} are accepted here")
        if size <= len(self._buffer):
            return False
        self._large = memoryview(bytearray(head[0]))
        self._large_head, self._large_filled = head, self._filled - begin
        self._large[: self._large_filled] = self._buffer[begin : self._filled]
        self._filled = 0
        return True

    def _read_large(self, body: memoryview) -> list[Message]:
        while self._large_filled < len(body):
            try:
                received = self.receive(body[self._large_filled :])
            except BlockingIOError:
                return []
            if not received:
                raise EOFError("the other side has closed the connection in the middle of a message")
            self._large_filled += received
        self._large = None
        return [unpack(self._large_head, body)]
