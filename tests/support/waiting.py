"""Waiting for something that happens elsewhere: in a thread, a process or a server."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(what: Callable[[], object], seconds: float = 60.0) -> None:
    """Look fifty times a second. Raises: AssertionError if it does not come in time."""
    until_s = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until_s, "it did not come"
        time.sleep(0.02)
