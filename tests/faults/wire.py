"""A wire to a server on loopback that a test can cut and join: meanwhile what is sent is held, as by a network that is
parted, and comes late. Neither end is told."""

from __future__ import annotations

import selectors
import socket
import threading


class Wire:
    """``port``: where to connect instead of the server's."""

    def __init__(self, server_port: int) -> None:
        self._server = ("127.0.0.1", server_port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._joined, self._over = threading.Event(), threading.Event()
        self._joined.set()
        self._others: dict[socket.socket, socket.socket] = {}
        self._held: dict[socket.socket, bytes] = {}
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Wire:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        for end in (self._listener, *self._others):
            end.close()

    def cut(self) -> None:
        self._joined.clear()

    def join(self) -> None:
        self._joined.set()

    @property
    def held_bytes(self) -> int:
        return sum(map(len, self._held.copy().values()))

    def _run(self) -> None:
        with selectors.DefaultSelector() as ends:
            ends.register(self._listener, selectors.EVENT_READ)
            while not self._over.is_set():
                for key, _ in ends.select(0.01):
                    if key.fileobj is self._listener:
                        self._connect(ends)
                    elif isinstance(key.fileobj, socket.socket):
                        self._take(key.fileobj, ends)
                if self._joined.is_set():
                    self._pass_on()

    def _connect(self, ends: selectors.BaseSelector) -> None:
        near, _ = self._listener.accept()
        far = socket.create_connection(self._server)
        self._others |= {near: far, far: near}
        for end in (near, far):
            ends.register(end, selectors.EVENT_READ)

    def _take(self, end: socket.socket, ends: selectors.BaseSelector) -> None:
        try:
            came = end.recv(65536)
        except OSError:
            came = b""
        if came:
            self._held[end] = self._held.get(end, b"") + came
        else:
            ends.unregister(end)
            self._held.setdefault(end, b"")

    def _pass_on(self) -> None:
        for end, came in list(self._held.items()):
            try:
                self._others[end].sendall(came) if came else self._others[end].shutdown(socket.SHUT_WR)
            except OSError:
                pass  # the other end has gone
            del self._held[end]
