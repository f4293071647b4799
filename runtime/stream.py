"""Messages of frames over a stream socket, blocking or not, without a thread in between.

On the wire: a prefix (number of frames, size of the body), then the body: the lengths of the frames, the frames, each
padded to 16 bytes so that arrays which share a frame's memory are aligned.
"""

from __future__ import annotations

import math
import socket
import struct
from collections import deque
from itertools import islice

from runtime.wire import Frame, Frames

_PREFIX = struct.Struct("<IQ")
_ALIGN = 16
_PADDING = [bytes(-size % _ALIGN) for size in range(_ALIGN)]
_JOIN_BELOW_BYTES = 32 * 1024
_BUFFER_BYTES = 64 * 1024
_PARTS_A_CALL = 256  # the kernel takes at most 1024


def prepare(sock: socket.socket) -> None:
    """Large kernel buffers (a video frame in few calls); on tcp no delay, and a vanished peer noticed in seconds."""
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        sock.setsockopt(socket.SOL_SOCKET, option, 1 << 20)
    if sock.family in (socket.AF_INET, socket.AF_INET6):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (("TCP_KEEPIDLE", 1), ("TCP_KEEPINTVL", 1), ("TCP_KEEPCNT", 3)):
            if hasattr(socket, name):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class FrameWriter:
    """Sends messages in order; what the socket does not take at once waits in a backlog for ``flush``."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._backlog: deque[memoryview] = deque()

    @property
    def pending(self) -> bool:
        return bool(self._backlog)

    def send(self, frames: Frames) -> None:
        """Raises: OSError when the connection is gone."""
        parts, size = _parts_of(frames)
        if size < _JOIN_BELOW_BYTES:
            parts = [b"".join(parts)]
        self._backlog.extend(memoryview(part) for part in parts)
        self.flush()

    def flush(self) -> None:
        """Writes what the socket takes (all of it when it blocks). Raises: OSError when the connection is gone."""
        backlog = self._backlog
        while backlog:
            try:
                if len(backlog) == 1:
                    written = self._socket.send(backlog[0])
                else:
                    written = self._socket.sendmsg(list(islice(backlog, _PARTS_A_CALL)))
            except BlockingIOError:
                return
            self._forget(written)

    def _forget(self, written: int) -> None:
        backlog = self._backlog
        while backlog and written >= len(backlog[0]):
            written -= len(backlog.popleft())
        if written:
            backlog[0] = backlog[0][written:]


def _parts_of(frames: Frames) -> tuple[list[Frame], int]:
    lengths = [len(frame) for frame in frames]
    table = struct.pack(f"<{len(lengths)}Q", *lengths)
    size = _aligned(len(table)) + sum(map(_aligned, lengths))
    parts: list[Frame] = [_PREFIX.pack(len(lengths), size) + table + _PADDING[len(table) % _ALIGN]]
    for frame, length in zip(frames, lengths, strict=True):
        parts.append(frame)
        parts.append(_PADDING[length % _ALIGN])
    return parts, size


def _aligned(size: int) -> int:
    return (size + _ALIGN - 1) // _ALIGN * _ALIGN


class FrameReader:
    """Receives messages. Small ones are cut from one buffer, a large one is received into memory of its own."""

    def __init__(self, sock: socket.socket, limit_bytes: float = math.inf) -> None:
        self.limit_bytes = limit_bytes
        """Largest body accepted; a stranger gets a low one until it has proved who it is."""
        self._receive = sock.recv_into
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))
        self._filled = 0
        self._large: memoryview | None = None
        self._large_filled = 0
        self._large_count = 0

    def read(self) -> list[list[memoryview]]:
        """Receives once and returns the messages that are complete, perhaps none.

        Raises: EOFError when the other side has closed; OSError when the connection broke.
        """
        if self._large is not None:
            return self._read_large(self._large)
        try:
            received = self._receive(self._buffer[self._filled :])
        except BlockingIOError:
            return []
        if not received:
            raise EOFError("the other side has closed the connection")
        self._filled += received
        messages = self._cut_complete()
        return messages if self._large is None else messages + self._read_large(self._large)

    def _cut_complete(self) -> list[list[memoryview]]:
        messages: list[list[memoryview]] = []
        start, filled = 0, self._filled
        while filled - start >= _PREFIX.size:
            count, size = _PREFIX.unpack_from(self._buffer, start)
            if size > self.limit_bytes:
                raise OSError(f"a message of {size} bytes was announced; at most {self.limit_bytes} are accepted here")
            begin = start + _PREFIX.size
            if begin + size > filled:
                if begin + size - start > len(self._buffer):
                    self._begin_large(count, size, begin)
                    return messages
                break
            messages.append(_split(memoryview(bytearray(self._buffer[begin : begin + size])), count))
            start = begin + size
        self._buffer[: filled - start] = self._buffer[start:filled]
        self._filled = filled - start
        return messages

    def _begin_large(self, count: int, size: int, begin: int) -> None:
        self._large = memoryview(bytearray(size))
        self._large_count, self._large_filled = count, self._filled - begin
        self._large[: self._large_filled] = self._buffer[begin : self._filled]
        self._filled = 0

    def _read_large(self, body: memoryview) -> list[list[memoryview]]:
        while self._large_filled < len(body):
            try:
                received = self._receive(body[self._large_filled :])
            except BlockingIOError:
                return []
            if not received:
                raise EOFError("the other side has closed the connection in the middle of a message")
            self._large_filled += received
        self._large = None
        return [_split(body, self._large_count)]


def _split(body: memoryview, count: int) -> list[memoryview]:
    offset = _aligned(8 * count)
    frames = []
    for length in struct.unpack_from(f"<{count}Q", body):
        frames.append(body[offset : offset + length])
        offset += _aligned(length)
    return frames
