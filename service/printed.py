"""What apps print, on its way to the user: line by line, with who printed it, and no more than anyone reads."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from time import monotonic

Tell = Callable[[str, str], None]
"""Takes who printed, and the line."""

LINES_PER_S = 200
"""More than that, from all workers of an app together, is counted and not shown."""
WORKER = "recompose-"
"""How the names of threads begin that are workers of the pool ``local``."""


class Printed:
    """Passes lines on. May be used from any thread."""

    def __init__(self, tell: Tell, clock: Callable[[], float] = monotonic) -> None:
        self._tell, self._clock = tell, clock
        self._lock = threading.Lock()
        self._second_s = clock()
        self._shown, self._left_out = 0, 0

    def line(self, who: str, text: str) -> None:
        with self._lock:
            if self._clock() - self._second_s >= 1.0:
                self._begin_second()
            if self._shown < LINES_PER_S:
                self._shown += 1
                self._tell(who, text)
            else:
                self._left_out += 1

    def close(self) -> None:
        """Tells what was left out last."""
        with self._lock:
            self._begin_second()

    def _begin_second(self) -> None:
        if self._left_out:
            self._tell("recompose", f"{self._left_out:,} lines left out; at most {LINES_PER_S} a second are shown")
        self._second_s, self._shown, self._left_out = self._clock(), 0, 0


class PrintedHere(io.TextIOBase):
    """In the place of ``sys.stdout``: what the threads of this process write, each its own lines."""

    encoding = "utf-8"

    def __init__(self, printed: Printed) -> None:
        self._printed = printed
        self._begun = threading.local()

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        *lines, self._begun.text = (vars(self._begun).get("text", "") + text).split("\n")
        for line in lines:
            self._printed.line(threading.current_thread().name.removeprefix(WORKER), line)
        return len(text)
