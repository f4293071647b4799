"""Waiting for something that happens elsewhere: in a thread, a process or a server."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(
    read: Callable[[], T], true: Callable[[T], object] = bool, seconds: float = 60.0, every_s: float = 0.02
) -> T:
    """Return the first value that is as it should be. Raises: AssertionError if none comes in time."""
    until_s = time.monotonic() + seconds
    while not true(found := read()):
        assert time.monotonic() < until_s, f"not within {seconds:g} s: {found}"
        time.sleep(every_s)
    return found


def wait_until(what: Callable[[], object], seconds: float = 60.0) -> None:
    """Look fifty times a second. Raises: AssertionError if it does not come in time."""
    eventually(what, seconds=seconds)
