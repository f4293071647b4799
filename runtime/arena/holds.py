"""Which blocks a reader has been given: they stay until it has let them go."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from runtime.arena.reference import Block, Reference


class Holds:
    """Each block as often as it was given, and let go as often. From any thread."""

    def __init__(self) -> None:
        self._blocks: dict[int, list[Block]] = {}
        self._lock = threading.RLock()
        """The collector may let go of one in the middle of adding another."""

    def add(self, frames: Iterable[Any]) -> None:
        """The blocks of those frames that are references."""
        for frame in frames:
            if isinstance(frame, Reference) and frame.keeper is not None:
                with self._lock:
                    self._blocks.setdefault(frame.block, []).append(frame.keeper)

    def get(self, start: int) -> Block | None:
        held = self._blocks.get(start)
        return held[0] if held else None

    def drop(self, start: int) -> None:
        """Once. One that is not held, or no longer, is nothing."""
        with self._lock:
            if held := self._blocks.get(start):
                held.pop()
                if not held:
                    del self._blocks[start]

    def clear(self) -> None:
        self._blocks.clear()
