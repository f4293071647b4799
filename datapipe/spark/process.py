"""Keep a Spark driver running, in a separate process connected by a pipe."""

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
"""Number of drivers that fail in a row without progress before giving up."""
LIVED_S = 60.0
"""Lifetime after which the end of a driver does not count as a failed start."""
PAUSE_S = 1.0
"""Pause between two drivers."""


class DriverProcess:
    """A driver process, restarted when it dies. ``run`` is the body of a thread; all other methods are thread-safe.

    ``greet`` returns the first message for each driver; ``hear`` is called with its messages, ``lost`` when it is gone.
    The last argument of ``command`` is the file descriptor of the driver's end of the pipe.
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
        """Run drivers until ``stop``, and return None; or return the reason why no driver can work."""
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
        """Send a message to the driver, if it runs; a later driver requests what it needs."""
        with self._sending:
            if self._connection is None:
                return
            try:
                self._connection.send(message)
            except (OSError, ValueError):
                return

    def progressed(self) -> None:
        """Record that the driver made progress, so that its end does not count as a failed start."""
        self._fruitless = 0

    def stop(self) -> None:
        """Kill the driver, which is safe at any point."""
        self._stopped.set()
        if self._process is not None:
            self._process.kill()

    @property
    def pid(self) -> int | None:
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def _serve(self, talk: IO[bytes]) -> None:
        """Start a driver, and serve it until its end."""
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
    """Return the last line of output that is not indented, as indented lines belong to stack traces."""
    talk.seek(0)
    lines = [line for line in talk.read().decode(errors="replace").splitlines() if line and not line[0].isspace()]
    return lines[-1][:300] if lines else "it printed nothing"
