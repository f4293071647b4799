"""Calls between two processes of one host: request and reply are bytes, over a unix socket.

A connection carries one call at a time and is used again, so that an answer belongs to the request before it and the
end of the server is the end of every call under way. Its folder has mode 0700: only this user can reach the socket.
"""

import hmac
import os
import secrets
import shutil
import socket
import socketserver
import struct
import threading
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from io import BufferedIOBase

from runtime.housekeeping import make_folder

SECRET_BYTES = 32
_SIZE = struct.Struct("!Q")


@dataclass(frozen=True, slots=True)
class LocalAddress:
    """The address of a server for processes of its own host; picklable."""

    folder: str
    secret: bytes = field(repr=False)

    @property
    def path(self) -> str:
        return os.path.join(self.folder, "calls")


class LocalServer:
    """Answers in a thread a connection; ``answer`` must raise nothing. It ends with its process."""

    def __init__(self, answer: Callable[[bytes], bytes]) -> None:
        """Raises: OSError without a folder whose name is short enough for a socket in it."""
        folder = make_folder()
        self.address = LocalAddress(folder, secrets.token_bytes(SECRET_BYTES))
        self._server = _Server(self.address, answer)
        threading.Thread(target=self._server.serve_forever, name="local-calls", daemon=True).start()

    def close(self) -> None:
        """Takes no new connection, and removes the folder."""
        self._server.shutdown()
        self._server.server_close()
        shutil.rmtree(self.address.folder, ignore_errors=True)


class LocalCaller:
    """Asks a server; from any thread, each call under way over a connection of its own."""

    def __init__(self, address: LocalAddress) -> None:
        self._address = address
        self._idle: deque[_Connection] = deque()
        weakref.finalize(self, _close_all, self._idle)  # a caller that is forgotten leaves none behind

    def ask(self, request: bytes, timeout_s: float | None) -> bytes:
        """Raises: ConnectionRefusedError when the server cannot be reached, and nothing was asked; TimeoutError, and
        then it may still come to it; ConnectionResetError when it ended meanwhile."""
        connection = self._connection(timeout_s)
        try:
            answer = connection.ask(request, timeout_s)
        except BaseException as error:
            connection.close()  # its answer would be taken for that of the next call
            if isinstance(error, EOFError | BrokenPipeError):
                raise ConnectionResetError("the server has closed the connection") from error
            raise
        self._idle.append(connection)
        return answer

    def clear_up(self) -> None:
        """After a server that was killed: closes what is at rest, and removes the folder."""
        _close_all(self._idle)
        shutil.rmtree(self._address.folder, ignore_errors=True)

    def _connection(self, timeout_s: float | None) -> "_Connection":
        with suppress(IndexError):
            return self._idle.pop()
        try:
            return _Connection(self._address, timeout_s)
        except OSError as error:
            raise ConnectionRefusedError(str(error)) from error


class _Connection:
    def __init__(self, address: LocalAddress, timeout_s: float | None) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            self._socket.settimeout(timeout_s)
            self._socket.connect(address.path)
            self._socket.sendall(address.secret)
        except BaseException:
            self._socket.close()
            raise
        self._answers = self._socket.makefile("rb")

    def ask(self, request: bytes, timeout_s: float | None) -> bytes:
        self._socket.settimeout(timeout_s)
        self._socket.sendall(_SIZE.pack(len(request)) + request)
        return _read(self._answers)

    def close(self) -> None:
        self._answers.close()
        self._socket.close()


def _close_all(connections: deque[_Connection]) -> None:
    while connections:
        connections.pop().close()


def _read(stream: BufferedIOBase) -> bytes:
    """Raises: EOFError when the other side has closed."""
    return _exactly(stream, _SIZE.unpack(_exactly(stream, _SIZE.size))[0])


def _exactly(stream: BufferedIOBase, count: int) -> bytes:
    data = stream.read(count)
    if len(data) < count:
        raise EOFError("the other side has closed the connection")
    return data


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address: LocalAddress, answer: Callable[[bytes], bytes]) -> None:
        self.secret, self.answer = address.secret, answer
        super().__init__(address.path, _Handler)


class _Handler(socketserver.StreamRequestHandler):
    server: _Server

    def handle(self) -> None:
        with suppress(EOFError, OSError):  # who asked has gone
            if hmac.compare_digest(_exactly(self.rfile, SECRET_BYTES), self.server.secret):
                self._serve()

    def _serve(self) -> None:
        while True:
            answer = self.server.answer(_read(self.rfile))
            self.wfile.write(_SIZE.pack(len(answer)) + answer)
