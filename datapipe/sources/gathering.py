"""Gather items into bundles, closed by count, bytes or age, whichever comes first."""

from collections import deque
from collections.abc import Iterator

from compositions.batching import BundleLimits
from datapipe.sources.pacing import FrequencyManager
from datapipe.sources.portions import Portion, joined, part_of, weight_bytes
from datapipe.sources.sources import Clock, Reader

READ_S = 0.002
"""Maximum time of one read of items that are due, as items read before them wait meanwhile."""
WEIGHED = 8
"""Number of items of a portion from which the size of later items is estimated."""


class Gathering:
    """Gathers the items of a source, in its thread. Any thread may set ``limits``, which apply from the next bundle."""

    def __init__(
        self, reader: Reader, pacing: FrequencyManager, clock: Clock, limits: BundleLimits | None = None
    ) -> None:
        self._reader, self._pacing, self._clock = reader, pacing, clock
        self.limits = limits or BundleLimits()
        self.read = 0
        self.item_bytes = 0.0
        """Estimated size of an item, from the latest ones read."""
        self._ready: deque[Portion] = deque()
        """Portions that were read but did not fit into the bundle before."""

    def next(self, most: float) -> Portion | None:
        """Return the next bundle of at most ``most`` items, each with its due time; None at the end."""
        if not self._ready:
            limits = self.limits
            size = int(min(most, limits.items))
            portion = self._first(size, limits)
            if portion is None:
                return None
            if limits.linger_s > 0:
                portion = self._linger(portion, min(size, self._fitting(limits)), limits)
            self._ready.extend(_cut(portion, limits.max_bytes))
        return self._ready.popleft()

    def _first(self, size: int, limits: BundleLimits) -> Portion | None:
        turns = self._pacing.turns(size)  # None on stopping; the source itself then returns its remaining items
        return self._portion(size if turns is None else len(turns), turns, self._clock() + max(limits.linger_s, READ_S))

    def _portion(self, most: int, turns: list[float] | None, until_s: float) -> Portion | None:
        """Return available items, up to ``most``; give back turns for which there was no item."""
        portion = self._read(most, until_s)
        count = 0 if portion is None else len(portion.values)
        if turns is not None:
            self._pacing.give_back(len(turns) - count)
        self.read += count
        return None if portion is None else _due(portion, turns)

    def _read(self, most: int, until_s: float) -> Portion | None:
        """Read no more than one bundle by the estimated size, as no memory limit counts items that wait here."""
        fitting = self._fitting(self.limits) if self.read else 1
        portion = self._reader.read(min(most, fitting), until_s)
        if portion is None:
            return None
        self._weigh(portion)
        more = min(most, self._fitting(self.limits)) - len(portion.values)
        if not self.read and more > 0 and (now_s := self._clock()) < until_s and self._reader.at_hand(now_s):
            rest = self._reader.read(more, until_s)
            portion = portion if rest is None else _joined(portion, rest)
        return portion

    def _weigh(self, portion: Portion) -> None:
        some = portion.values[:WEIGHED]
        self.item_bytes = weight_bytes(some) / len(some)

    def _fitting(self, limits: BundleLimits) -> int:
        """Return the number of items that fit into one bundle."""
        return max(1, int(limits.max_bytes // max(1.0, self.item_bytes)))

    def _linger(self, portion: Portion, size: int, limits: BundleLimits) -> Portion:
        """Wait for more items until the first one has waited for ``linger_s``."""
        until_s = portion.arrived_s[0] + limits.linger_s
        while (missing := size - len(portion.values)) > 0 and self._pacing.wait_until(until_s):
            turns = self._pacing.due_now(missing)
            more = self._portion(len(turns), turns, until_s) if turns and self._reader.at_hand(until_s) else None
            if more is None:
                break
            portion = _joined(portion, more)
        return portion


def _due(portion: Portion, turns: list[float] | None) -> Portion:
    """Return the portion with due times: the source's own, else the schedule's, else the times of reading."""
    if portion.due_s is not None:
        return portion
    arrived_s = portion.arrived_s
    if turns is None:
        return portion._replace(due_s=arrived_s)
    if turns[len(arrived_s) - 1] <= arrived_s[0]:  # the last turn came before the first read: so did all
        return portion._replace(due_s=tuple(turns[: len(arrived_s)]))
    return portion._replace(due_s=tuple(map(min, turns, arrived_s)))


def _joined(first: Portion, second: Portion) -> Portion:
    """Join two portions, of which both or neither have due times."""
    due_s = first.due_s and second.due_s and first.due_s + second.due_s
    marks = first.marks and second.marks and joined(first.marks, second.marks)
    return Portion(first.values + second.values, first.arrived_s + second.arrived_s, due_s, marks)


def _cut(portion: Portion, max_bytes: int) -> Iterator[Portion]:
    """Split a portion into pieces of at most ``max_bytes``; a larger item is a piece by itself."""
    if len(portion.values) == 1 or weight_bytes(portion.values) <= max_bytes:
        yield portion
        return
    begin, weight = 0, 0.0
    for index, value in enumerate(portion.values):
        own = weight_bytes([value])
        if weight + own > max_bytes and index > begin:
            yield piece(portion, begin, index)
            begin, weight = index, 0.0
        weight += own
    yield piece(portion, begin, len(portion.values))


def piece(portion: Portion, begin: int, end: int) -> Portion:
    due_s = None if portion.due_s is None else portion.due_s[begin:end]
    marks = None if portion.marks is None else part_of(portion.marks, begin, end)
    return Portion(portion.values[begin:end], portion.arrived_s[begin:end], due_s, marks)
