"""A turn: what time it is, and what has been said so far. Every part of the dispatcher speaks through it."""

from __future__ import annotations

from runtime.dispatch.instructions import Instruction
from runtime.dispatch.outcomes import Outcome


class Turn:
    """``instructions`` and ``outcomes`` are in the order in which they were said; a new turn begins with none."""

    __slots__ = ("instructions", "now_s", "outcomes")

    def __init__(self) -> None:
        self.now_s = 0.0
        self.instructions: list[Instruction] = []
        self.outcomes: list[Outcome] = []

    def begin(self) -> None:
        self.instructions, self.outcomes = [], []
