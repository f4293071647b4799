"""Calls between two processes of one host: request and reply are bytes, over a unix socket.

A connection carries one call at a time and is reused. So each answer belongs to the request before it, and the end of
the server ends every call under way. The socket's folder has mode 0700: only this user can connect.
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
    """Answers calls, with one thread per connection, until the process ends. ``answer`` must not raise."""

    def __init__(self, answer: Callable[[bytes], bytes]) -> None:
        """Start the server. Raises: OSError if no folder has a path that is short enough for a socket."""
        folder = make_folder()
        self.address = LocalAddress(folder, secrets.token_bytes(SECRET_BYTES))
        self._server = _Server(self.address, answer)
        threading.Thread(target=self._server.serve_forever, name="local-calls", daemon=True).start()

    def close(self) -> None:
        """Refuse new connections, and remove the folder."""
        self._server.shutdown()
        self._server.server_close()
        shutil.rmtree(self.address.folder, ignore_errors=True)


class LocalCaller:
    """Calls a server. Thread-safe: concurrent calls use separate connections."""

    def __init__(self, address: LocalAddress) -> None:
        self._address = address
        self._idle: deque[_Connection] = deque()
        weakref.finalize(self, _close_all, self._idle)  # closes the connections when the caller is collected

    def ask(self, request: bytes, timeout_s: float | None) -> bytes:
        """Send a request, and return the answer. Raises: ConnectionRefusedError if the server cannot be reached and
        nothing was sent; TimeoutError (the server may still handle it); ConnectionResetError if the server ended."""
        connection = self._connection(timeout_s)
        try:
            answer = connection.ask(request, timeout_s)
        except BaseException as error:
            connection.close()  # a late answer would be taken for that of the next call
            if isinstance(error, EOFError | BrokenPipeError):
                raise ConnectionResetError("the server has closed the connection") from error
            raise
        self._idle.append(connection)
        return answer

    def clear_up(self) -> None:
        """Clean up after a killed server: close idle connections, and remove its folder."""
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
    """Read one message. Raises: EOFError if the other side has closed the connection."""
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
        with suppress(EOFError, OSError):  # the caller is gone
            if hmac.compare_digest(_exactly(self.rfile, SECRET_BYTES), self.server.secret):
                self._serve()

    def _serve(self) -> None:
        while True:
            answer = self.server.answer(_read(self.rfile))
            self.wfile.write(_SIZE.pack(len(answer)) + answer)
