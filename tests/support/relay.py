"""A way to a server on loopback that a test can close and open again, or cut and join."""

import socket
import threading
from contextlib import suppress
from socketserver import ThreadingTCPServer

from lab.benchmarks.daemon import free_port


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class _Listener(ThreadingTCPServer):
    allow_reuse_address = True


class Relay:
    """From ``end`` to ``start`` the server is gone for whoever comes by way of it: for one that takes long to start.
    From ``cut`` to ``join`` what is sent is held, as by a network that is parted, and comes late; neither end is told.
    """

    def __init__(self, server_port: int) -> None:
        self._server_port, self.port = server_port, free_port()
        self._joined = threading.Event()
        self.join, self.cut = self._joined.set, self._joined.clear
        self.start()

    def start(self) -> None:
        self._held: dict[socket.socket, int] = {}
        """How much of what came from each end is not passed on."""
        self._ended = False
        self.join()
        self._listener = _Listener(("127.0.0.1", self.port), self._connect)  # type: ignore[arg-type]
        threading.Thread(target=self._listener.serve_forever, args=(0.02,)).start()

    def end(self) -> None:
        self._ended = True
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
            if not self._ended:
                there = threading.Thread(target=self._pass_on, args=(near, far))
                there.start()
                self._pass_on(far, near)
                there.join()

    def _pass_on(self, end: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):  # an end has gone
            while came := end.recv(65536):
                self._held[end] = len(came)
                self._joined.wait()
                other.sendall(came)
                self._held[end] = 0
        self._joined.wait()
        with suppress(OSError):
            other.shutdown(socket.SHUT_WR)
