"""Ctrl-C as a wish: the first is noted, and whoever works looks at it; the second interrupts as ever."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def first_is_noted() -> Iterator[Callable[[], bool]]:
    """Gives a function that says whether there was one. For the main thread alone."""
    noted = False

    def note(*_: Any) -> None:
        nonlocal noted
        if noted:
            raise KeyboardInterrupt
        noted = True

    before = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: noted
    finally:
        signal.signal(signal.SIGINT, before)
