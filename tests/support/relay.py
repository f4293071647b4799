"""A way to a server on loopback that a test can close and open again."""

import socket
import threading
from contextlib import suppress

from lab.benchmarks.daemon import free_port


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Relay:
    """To a server on loopback. Whoever comes by way of it finds the server gone when it ends, and there again when it
    starts: for one that takes long to start."""

    def __init__(self, server_port: int) -> None:
        self._server_port, self.port = server_port, free_port()
        self.start()

    def start(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._ends: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def end(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        self._listener.close()
        for end in self._ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for end in self._ends:
            end.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._server_port))
                self._ends += [near, far]
                for way in ((near, far), (far, near)):
                    self._threads.append(threading.Thread(target=self._carry, args=way))
                    self._threads[-1].start()

    @staticmethod
    def _carry(near: socket.socket, far: socket.socket) -> None:
        with suppress(OSError):
            while came := near.recv(65536):
                far.sendall(came)
        with suppress(OSError):
            far.shutdown(socket.SHUT_WR)
