"""A wire to a server on loopback that a test can cut and join: meanwhile what is sent is held, as by a network that is
parted, and comes late. Neither end is told."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from socketserver import ThreadingTCPServer


class Wire:
    """``port``: where to connect instead of the server's."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._listener = ThreadingTCPServer(("127.0.0.1", 0), self._connect)  # type: ignore[arg-type]
        self.port: int = self._listener.server_address[1]
        self._joined = threading.Event()
        self._held: dict[socket.socket, int] = {}
        """How much of what came from each end is not passed on."""
        self.join, self.cut = self._joined.set, self._joined.clear
        self.join()

    def __enter__(self) -> Wire:
        threading.Thread(target=self._listener.serve_forever).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.join()
        self._listener.shutdown()
        for end in [*self._held]:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self._listener.server_close()

    @property
    def held_bytes(self) -> int:
        return sum([*self._held.values()])

    def _connect(self, near: socket.socket, *_: object) -> None:
        with socket.create_connection(("127.0.0.1", self._server_port)) as far:
            self._held |= {near: 0, far: 0}
            there = threading.Thread(target=self._pass_on, args=(near, far))
            there.start()
            self._pass_on(far, near)
            there.join()

    def _pass_on(self, end: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):  # the other end has gone
            while came := end.recv(65536):
                self._held[end] = len(came)
                self._joined.wait()
                other.sendall(came)
                self._held[end] = 0
            self._joined.wait()
            other.shutdown(socket.SHUT_WR)
