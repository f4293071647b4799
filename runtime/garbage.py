"""Python's collector of cycles, kept away from what lives as long as its process."""

from __future__ import annotations

import gc


def settle() -> None:
    """What is loaded by now stays for good: the collector need not look at it again.

    A full collection of a process with Ray and NumPy in it stops every thread for 0.1 s and more. For processes that
    serve one app; where many come and go, cycles of those that went would stay as well.
    """
    gc.collect()
    gc.freeze()
