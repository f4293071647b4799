"""The runner's server socket (the door), to which the executors of its Spark driver on this machine connect."""

import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection

from compositions.errors import RecomposeError


class Door:
    """The server socket. A thread per connection calls ``serve``, and closes the connection when ``serve`` returns.
    Access to the folder of ``address`` permits connecting. Raises: RecomposeError if no socket can be made."""

    def __init__(self, address: str, serve: Callable[[Connection], None]) -> None:
        self.address, self._serve = address, serve
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            self._socket.bind(address)
        except OSError as error:  # a path for sockets has about a hundred characters
            self._socket.close()
            why = f"{error}; TMPDIR should name a folder with a short path that can be written"
            raise RecomposeError(f"cannot make a socket for Spark at {address!r}: {why}") from error
        self._socket.listen()
        self._open: dict[socket.socket, threading.Thread] = {}
        self._accepts = threading.Thread(target=self._accept, daemon=True)
        self._accepts.start()

    def close(self) -> None:
        """End all connections, and wait for their threads."""
        self._end(self._socket, self._accepts)
        for guest, thread in list(self._open.items()):
            self._end(guest, thread)
        self._socket.close()

    def _end(self, connection: socket.socket, thread: threading.Thread) -> None:
        with suppress(OSError):  # already ended
            connection.shutdown(socket.SHUT_RDWR)
        thread.join()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                guest, _ = self._socket.accept()
                self._open[guest] = threading.Thread(target=self._receive, args=(guest,), daemon=True)
                self._open[guest].start()

    def _receive(self, guest: socket.socket) -> None:
        with guest, Connection(os.dup(guest.fileno())) as executor, suppress(EOFError, OSError):
            self._serve(executor)
        self._open.pop(guest, None)
