"""A thread that repeats a task until there is no next turn."""

import threading
from collections.abc import Callable

import structlog

AFTER_ERROR_S = 2.0
log = structlog.get_logger()
Clock = Callable[[], float]
TurnOnce = Callable[[], float | None]
"""Function that takes a turn and returns the seconds until the next; None: it was the last one."""


class Ticker:
    """Takes turns in a thread of that name."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, turn: TurnOnce) -> None:
        self._thread = threading.Thread(target=self._run, args=(turn,), name=self._name, daemon=True)
        self._thread.start()

    def _run(self, turn: TurnOnce) -> None:
        delay_s: float | None = 0.0
        while delay_s is not None and not self._ending.wait(delay_s):
            delay_s = self._guarded(turn)

    def _guarded(self, turn: TurnOnce) -> float | None:
        """Take a turn; an exception is logged, as without further turns nobody would watch any more."""
        try:
            return turn()
        except Exception:
            log.exception("periodic work failed", thread=self._name, consequence=f"repeated in {AFTER_ERROR_S:g} s")
            return AFTER_ERROR_S

    def end(self) -> None:
        """Prevent further turns; return at once."""
        self._ending.set()

    @property
    def ending(self) -> bool:
        return self._ending.is_set()

    def join(self, timeout_s: float) -> None:
        """Wait for the turn in progress."""
        if self._thread is not None:
            self._thread.join(timeout_s)
