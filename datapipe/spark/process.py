"""Keeps a Spark driver running, in a process of its own at the other end of a pipe."""

import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import IO

from datapipe.spark.messages import Message

START_FAILURES = 5
"""Drivers that end in a row before one gets anything done, until it is given up."""
LIVED_S = 60.0
"""A driver that lived for so long is none of those."""
PAUSE_S = 1.0
"""Between two drivers."""


class DriverProcess:
    """Started again when it dies. ``run`` is the body of a thread; everything else may be called from any.

    ``greet`` gives the first message for each driver, ``hear`` gets what it says, ``lost`` is called when it is gone.
    ``command`` gets the file descriptor of its end of the pipe as its last argument.
    """

    def __init__(
        self,
        command: Sequence[str],
        greet: Callable[[], Message],
        hear: Callable[[Message], None],
        lost: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        self._command, self._greet, self._hear, self._lost, self._clock = command, greet, hear, lost, clock
        self._sending = threading.Lock()
        self._connection: Connection | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = threading.Event()
        self._fruitless = 0
        self.restarts = 0

    def run(self) -> str | None:
        """Until ``stop``; otherwise the reason why no driver can work."""
        while not self._stopped.is_set():
            with tempfile.TemporaryFile() as talk:
                self._serve(talk)
                if self._stopped.is_set():
                    break
                self.restarts += 1
                if self._fruitless >= START_FAILURES:
                    return f"the Spark driver ended {self._fruitless} times in a row: {_last_line(talk)}"
            self._stopped.wait(PAUSE_S)
        return None

    def tell(self, message: Message) -> None:
        """To the driver, if there is one; what it misses, it asks for when it begins again."""
        with self._sending:
            if self._connection is None:
                return
            try:
                self._connection.send(message)
            except (OSError, ValueError):
                return

    def progressed(self) -> None:
        """The driver got something done: its end would be no failure to start."""
        self._fruitless = 0

    def stop(self) -> None:
        """Kills the driver, wherever it is: it is made for that."""
        self._stopped.set()
        if self._process is not None:
            self._process.kill()

    @property
    def pid(self) -> int | None:
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def _serve(self, talk: IO[bytes]) -> None:
        """One driver, from its start to its end."""
        mine, its = Pipe()
        self._fruitless += 1
        try:
            self._process = process = self._started(its, talk)
        except OSError as error:  # no such program, or no room for another process
            talk.write(f"it could not be started: {error}".encode())
            mine.close()
            return
        if self._stopped.is_set():  # while it was started
            process.kill()
        began_s = self._clock()
        self._converse(mine)
        with self._sending:
            self._connection = None
            mine.close()
        self._lost()
        process.wait()
        if self._clock() - began_s > LIVED_S:
            self._fruitless = 0

    def _started(self, its: Connection, talk: IO[bytes]) -> subprocess.Popen[bytes]:
        with its:
            return subprocess.Popen(
                [*self._command, str(its.fileno())],
                pass_fds=[its.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=talk,
                stderr=talk,
            )

    def _converse(self, connection: Connection) -> None:
        with suppress(EOFError, OSError):  # the driver is gone
            connection.send(self._greet())
            with self._sending:
                self._connection = connection
            while True:
                self._hear(connection.recv())


def _last_line(talk: IO[bytes]) -> str:
    """Lines that begin with a space are of a stack."""
    talk.seek(0)
    lines = [line for line in talk.read().decode(errors="replace").splitlines() if line and not line[0].isspace()]
    return lines[-1][:300] if lines else "it said nothing"
