"""What Python does beside the work of a process, kept from holding it up: threads take turns, cycles are collected."""

from __future__ import annotations

import gc
import sys

TURN_S = 0.0005


def settle() -> None:
    """What is loaded by now stays for good: the collector need not look at it again; threads take short turns.

    A full collection of a process with Ray and NumPy in it stops every thread for 0.1 s and more. For processes that
    serve one app; where many come and go, cycles of those that went would stay as well.
    """
    short_turns()
    gc.collect()
    gc.freeze()


def unsettle() -> None:
    """What this process served is over, and it will serve again: cycles of what was settled are collected, too."""
    gc.unfreeze()
    gc.collect()


def short_turns() -> None:
    """A thread that comes back from the network waits for at most this long for one that calculates, and not 5 ms."""
    sys.setswitchinterval(TURN_S)
