"""The same work for all contenders: four stages that add one, of which the second may burn so and so much CPU.

Imports nothing but the standard library: peers run in interpreters of their own.
"""

from __future__ import annotations

from time import process_time

STAGES = 4
BUNDLE = 512
_LOOPS = 20_000


def plus_one(value: int) -> int:
    return value + 1


def plus_four(value: int) -> int:
    """What all stages make of a value."""
    return value + STAGES


def burn(loops: int) -> None:
    """The same work at every call, however busy the machine is; a wait until a clock says so would be none."""
    for _ in range(loops):
        pass


def loops_for(microseconds: float) -> int:
    """How many ``burn`` loops take so much CPU on this machine: the best of a few tries."""
    if not microseconds:
        return 0
    return max(1, round(_LOOPS * microseconds * 1e-6 / min(_timed() for _ in range(20))))


def _timed() -> float:
    began_s = process_time()
    burn(_LOOPS)
    return process_time() - began_s


class Merged:
    """All four stages as one function of one value."""

    def __init__(self, loops: int) -> None:
        self._loops = loops

    def __call__(self, value: int) -> int:
        if self._loops:
            burn(self._loops)
        return plus_one(plus_one(plus_one(plus_one(value))))


class Check:
    """Takes what comes out, bundle by bundle, and compares it with a plain loop: the sum, and the order."""

    def __init__(self) -> None:
        self.items = self.total = self.misplaced = 0

    def take(self, values: list[int]) -> None:
        """Cheap enough to be no part of what is measured: a fault inside a bundle shows in the sum or the ends."""
        if not values:
            return
        self.misplaced += values[0] != self.items + STAGES
        self.items += len(values)
        self.misplaced += values[-1] != self.items - 1 + STAGES
        self.total += sum(values)

    def verify(self, items: int, who: str) -> None:
        """Raises: ValueError when something else came out than of a plain loop."""
        expected = items * (items - 1) // 2 + items * STAGES
        if (self.items, self.total, self.misplaced) != (items, expected, 0):
            told = f"{self.items} items, sum {self.total}, {self.misplaced} bundles out of place"
            raise ValueError(f"{who}: {told}; a plain loop has {items} items, sum {expected}")
