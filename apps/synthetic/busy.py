"""Being busy, or waiting, for a given time."""

from __future__ import annotations

import time

_STEPS = 100
"""Additions between two looks at the clock: some 5 µs, which bounds the overshoot; a look takes 0.7 µs."""


def burn(cpu_s: float, since_s: float) -> None:
    """Computes until this thread has had ``cpu_s`` of CPU time since ``since_s`` of ``time.thread_time``.

    CPU time, not wall time: an item costs the same when workers share a core.
    """
    until_s = since_s + cpu_s
    value = 1.0
    while time.thread_time() < until_s:
        for _ in range(_STEPS):
            value = value * 0.999 + 0.5


def rest(wall_s: float, since_s: float) -> None:
    """Sleeps until ``wall_s`` after ``since_s`` of ``time.perf_counter``."""
    left_s = since_s + wall_s - time.perf_counter()
    if left_s > 0:
        time.sleep(left_s)
