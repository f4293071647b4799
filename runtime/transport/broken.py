"""What stands for a value that could not be unpickled."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Broken:
    """``why`` is the traceback."""

    why: str
