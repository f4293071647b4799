"""The work of all contenders: four stages that add one, of which the second may burn CPU; or a running sum by key.

It imports nothing but the standard library: peers run in interpreters of their own.
"""

from __future__ import annotations

from time import process_time

STAGES = 4
BUNDLE = 512
KEYS = 1_000
_LOOPS = 20_000

# --- four light stages ------------------------------------------------------------------------------------------------


def plus_one(value: int) -> int:
    return value + 1


def plus_four(value: int) -> int:
    """Return what all stages make of a value."""
    return value + STAGES


def burn(loops: int) -> None:
    """Do the same work at every call, however busy the machine is; waiting for a clock would be no work."""
    for _ in range(loops):
        pass


def loops_for(microseconds: float) -> int:
    """Return how many ``burn`` loops take this CPU time on this machine: the best of a few tries."""
    if not microseconds:
        return 0
    return max(1, round(_LOOPS * microseconds * 1e-6 / min(_timed() for _ in range(20))))


def _timed() -> float:
    began_s = process_time()
    burn(_LOOPS)
    return process_time() - began_s


class Check:
    """Takes the output, bundle by bundle, and compares it with a plain loop: the sum, and the order."""

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
        """Raises: ValueError when the output differs from that of a plain loop."""
        expected = items * (items - 1) // 2 + items * STAGES
        if (self.items, self.total, self.misplaced) != (items, expected, 0):
            told = f"{self.items} items, sum {self.total}, {self.misplaced} bundles out of place"
            raise ValueError(f"{who}: {told}; a plain loop has {items} items, sum {expected}")


# --- sums by key ------------------------------------------------------------------------------------------------------


def key_of(value: int) -> int:
    return value % KEYS


def last_sums(items: int) -> dict[int, int]:
    """Return the sums of all keys after this many numbers, from 0."""
    return {key: sum(range(key, items, KEYS)) for key in range(min(KEYS, items))}


def sum_at(value: int) -> int:
    """Return the running sum that belongs to ``value``: of ``key, key + KEYS …`` up to it."""
    terms = value // KEYS + 1
    return terms * (key_of(value) + value) // 2


def verify_sums(sums: dict[int, int], items: int, who: str) -> None:
    """Raises: ValueError when the last sums are other than those of a plain loop."""
    if sums != last_sums(items):
        wrong = sorted(key for key in range(KEYS) if sums.get(key) != last_sums(items).get(key))
        raise ValueError(f"{who}: other sums than a plain loop for {len(wrong)} keys, the first is {wrong[:1]}")
