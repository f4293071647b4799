"""How much work each partition of a stage is, and who should have which where keys are skewed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from runtime.dispatch.events import WorkerId

COUNTED = 64
"""Values for each partition between two looks: with 64 partitions a half of even keys differs by 2 % then."""
UNEVEN = 1.2
"""Where the worker with the most has so many times the mean, partitions are to move: a state that moves is pickled and
read again, so this is not done for less."""
GAIN = 0.1
"""Of the mean: what the worker with the most must be rid of by it."""


class Loads:
    """Of the partitions of one stage, as far as their values tell: what a value costs is the same for all. Older values
    count for half with each look."""

    __slots__ = ("counted", "values")

    def __init__(self, count: int) -> None:
        self.values = [0] * count
        self.counted = 0
        """Since the last look."""

    def note(self, partitions: bytes) -> None:
        """Values that came, by the partition of each."""
        for each, count in Counter(partitions).items():
            self.values[each] += count
        self.counted += len(partitions)

    @property
    def due(self) -> bool:
        return self.counted >= COUNTED * len(self.values)

    def look(self) -> list[int]:
        """The loads as they are, from which the next ones are counted on."""
        loads, self.counted = self.values, 0
        self.values = [each // 2 for each in loads]
        return loads


def moves(owned: Mapping[WorkerId, Sequence[int]], loads: Sequence[int]) -> dict[int, WorkerId]:
    """Which partitions are to have another owner, and whom: none where it is even, or cannot be made more so.

    From who has most to who has least goes what is nearest to half their difference, until the most is near the mean.
    """
    has = {worker: list(mine) for worker, mine in owned.items()}
    sums = {worker: sum(loads[each] for each in mine) for worker, mine in has.items()}
    mean, most = sum(sums.values()) / len(sums), max(sums.values())
    if most <= UNEVEN * mean:
        return {}
    found: dict[int, WorkerId] = {}
    while True:
        heavy, light = max(sums, key=sums.__getitem__), min(sums, key=sums.__getitem__)
        gap = sums[heavy] - sums[light]
        fit = [each for each in has[heavy] if 0 < loads[each] < gap]
        if not fit or sums[heavy] <= (1 + GAIN) * mean:
            break
        best = min(fit, key=lambda each: abs(gap - 2 * loads[each]))
        has[heavy].remove(best)
        has[light].append(best)
        sums[heavy], sums[light] = sums[heavy] - loads[best], sums[light] + loads[best]
        found[best] = light
    if most - max(sums.values()) < GAIN * mean:
        return {}
    return {each: worker for each, worker in found.items() if each not in owned[worker]}
