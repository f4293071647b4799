"""Workers that are no longer ours and may still run: what they may still write to is nobody's."""

from __future__ import annotations

import socket

from runtime.arena.reference import Block


class Departed:
    def __init__(self) -> None:
        self._rooms: dict[socket.socket, list[Block]] = {}

    def add(self, worker: socket.socket, room: list[Block]) -> None:
        """Tells the worker that it is over, and keeps its room until its side of the connection has ended."""
        try:
            worker.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # its side has ended
        self._rooms[worker] = room

    def tidy(self) -> None:
        """Lets go the room of those that have ended."""
        for worker in [each for each in self._rooms if _has_ended(each)]:
            worker.close()
            del self._rooms[worker]

    def close(self) -> None:
        """May be called twice."""
        for worker in self._rooms:
            worker.close()
        self._rooms.clear()


def _has_ended(worker: socket.socket) -> bool:
    """A process's sockets are closed after it has left its memory. What it still says is not heard."""
    try:
        while worker.recv(1 << 16, socket.MSG_DONTWAIT):
            pass
        return True
    except BlockingIOError:
        return False
    except OSError:
        return True
