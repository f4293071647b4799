"""Routes of values to the partitions of the next stage, and states by key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, compress, islice
from typing import Any, NamedTuple

Payload = Any
KeyStates = Mapping[Any, Payload | None]
"""The state of each key, pickled by a worker and never read elsewhere; None: the key was deleted."""
PLAIN = -1
"""The count of an item that is a single value rather than an ``Outputs``."""
_DEAD = b"\0", PLAIN
"""Placeholder for a value whose task failed; its item goes no further."""


class Routes(NamedTuple):
    """The partition of each value, for all items one after the other. ``counts``: the number of values of each item, or
    ``PLAIN``; None: every item is one value."""

    partitions: bytes
    counts: tuple[int, ...] | None = None

    def part(self, begin: int, end: int) -> Routes:
        """Return the routes of items ``begin`` to before ``end``."""
        if self.counts is None:
            return Routes(self.partitions[begin:end])
        starts = [0, *accumulate(map(abs, self.counts))]
        return Routes(self.partitions[starts[begin] : starts[end]], self.counts[begin:end])

    def item_of(self, position: int) -> int:
        """Return the index of the item that the value at this position belongs to."""
        if self.counts is None:
            return position
        return next(item for item, end in enumerate(accumulate(map(abs, self.counts))) if position < end)

    @staticmethod
    def anywhere(serial: int, count: int, partitions: int) -> Routes:
        """Return arbitrary routes, for values without known keys."""
        return Routes(bytes((serial + at) % partitions for at in range(count)))


class Routed(NamedTuple):
    """A payload for a partitioned stage."""

    payload: Any
    routes: Routes


class Mosaic(NamedTuple):
    """A payload in parts. ``picks``: for each part, a byte per value, 1 if it is there. ``counts``: as in Routes."""

    counts: tuple[int, ...] | None
    picks: tuple[bytes, ...]
    parts: tuple[Any, ...]

    def in_order(self, parts: Sequence[Sequence[Any]]) -> list[Any]:
        """Merge ``parts``, for each part a sequence with one entry per value, into one list in the order of values."""
        found: list[Any] = [None] * len(self.picks[0])
        for picked, values in zip(self.picks, parts, strict=True):
            for at, value in zip(compress(range(len(picked)), picked), values, strict=True):
                found[at] = value
        return found


def merged(counts: tuple[int, ...] | None, picks: tuple[bytes, ...], routes: Sequence[Routes | None]) -> Routes | None:
    """Merge the routes of parts into the routes of the whole payload; None if those of a part are unknown."""
    known = [each for each in routes if each is not None]
    if len(known) < len(routes):
        return None
    own = Mosaic(None, picks, ()).in_order([list(_by_value(each)) for each in known])
    values = [each or _DEAD for each in own]
    partitions = b"".join(each for each, _ in values)
    if counts is None and all(count == PLAIN for _, count in values):
        return Routes(partitions)
    rest = iter([count for _, count in values])
    return Routes(partitions, tuple(_count(rest, each) for each in counts or (PLAIN,) * len(values)))


def _by_value(routes: Routes) -> Iterator[tuple[bytes, int]]:
    """Yield the partitions and the number of values of each item."""
    begin = 0
    for count in routes.counts or (PLAIN,) * len(routes.partitions):
        yield routes.partitions[begin : begin + abs(count)], count
        begin += abs(count)


def _count(rest: Iterator[int], values: int) -> int:
    """Return the number of result values of an item with ``values`` inputs; ``rest`` yields the number per input."""
    return next(rest) if values == PLAIN else sum(abs(next(rest)) for _ in range(values))


# States by key: one table for all partitions, and the keys that each partition has.
#
# A table per partition would be slower: keys that came one after the other lie side by side in one table, so a look-up
# reads less uncached memory. With a million random keys of a kilobyte, a look-up and a change took 1.2 us instead of
# 2.6.

# The states of keys that a task changed, in parallel sequences: with about eight keys per partition, building a dict
# for each would be most of the work.


class Changed(Mapping[int, KeyStates]):
    """The new key states of one stage; a mapping by partition, which is built only when needed."""

    __slots__ = ("_by_partition", "partitions", "states", "touched")

    def __init__(self, touched: Sequence[Any], partitions: bytes, states: Sequence[Payload | None]) -> None:
        """``touched``: distinct keys; ``partitions`` and ``states``: the partition and the new state of each key."""
        self.touched, self.partitions, self.states = touched, partitions, states
        self._by_partition: dict[int, dict[Any, Payload | None]] | None = None

    @classmethod
    def of(cls, changes: Mapping[int, KeyStates]) -> Changed:
        """Make a ``Changed`` from states by partition."""
        if isinstance(changes, cls):
            return changes
        touched = [key for states in changes.values() for key in states]
        partitions = [partition for partition, states in changes.items() for _ in states]
        return cls(touched, bytes(partitions), [each for states in changes.values() for each in states.values()])

    def by_key(self) -> dict[Any, Payload | None]:
        return dict(zip(self.touched, self.states, strict=True))

    def partition_of_each(self) -> dict[Any, int]:
        return dict(zip(self.touched, self.partitions, strict=True))

    def __getitem__(self, partition: int) -> KeyStates:
        if self._by_partition is None:
            made: dict[int, dict[Any, Payload | None]] = {each: {} for each in self}
            for key, each, state in zip(self.touched, self.partitions, self.states, strict=True):
                made[each][key] = state
            self._by_partition = made
        return self._by_partition[partition]

    def __iter__(self) -> Iterator[int]:
        return iter(dict.fromkeys(self.partitions))

    def __len__(self) -> int:
        return len(set(self.partitions))

    def __contains__(self, partition: object) -> bool:
        return partition in set(self.partitions)


_FORGOTTEN = 64
"""Deleted keys are removed from a partition's list once they are more than this number and half of the list."""


class StatesByKey:
    """The states of all keys of a stage. A key is always in the same partition."""

    def __init__(self, count: int) -> None:
        """Make a table of ``count`` partitions."""
        self._states: dict[Any, Any] = {}
        self._keys: list[list[Any]] = [[] for _ in range(count)]
        """The keys of each partition; some are deleted or listed twice."""
        self._forgotten = [0] * count

    @property
    def count(self) -> int:
        return len(self._keys)

    def __len__(self) -> int:
        return len(self._states)

    def looked_up(self, keys: Iterable[Any]) -> dict[Any, Any]:
        """Return the state of each of ``keys``; None for a key without a state."""
        return {key: self._states.get(key) for key in keys}

    def of(self, partition: int) -> dict[Any, Any]:
        """Return all states of a partition by key."""
        states = self._states
        return {key: states[key] for key in self._keys[partition] if key in states}

    def put(self, changed: Mapping[Any, Any], partitions: Callable[[], Mapping[Any, int]]) -> None:
        """Store the new states of keys (None: delete). ``partitions`` is called only if keys are new or deleted."""
        states = self._states
        if gone := [key for key, state in changed.items() if state is None]:
            self._forget(gone, partitions())
            changed = {key: state for key, state in changed.items() if state is not None}
        before = len(states)
        states.update(changed)
        if new := len(states) - before:
            where = partitions()
            for key in list(islice(reversed(states), new)):
                self._keys[where[key]].append(key)

    def _forget(self, keys: Iterable[Any], partitions: Mapping[Any, int]) -> None:
        for key in keys:
            self._forgotten[partitions[key]] += self._states.pop(key, None) is not None
        for each in {partitions[key] for key in keys}:
            if self._forgotten[each] > max(_FORGOTTEN, len(self._keys[each]) // 2):
                self._keys[each], self._forgotten[each] = list(self.of(each)), 0

    def drop(self, partition: int) -> None:
        """Delete all states of a partition."""
        for key in self._keys[partition]:
            self._states.pop(key, None)
        self._keys[partition], self._forgotten[partition] = [], 0
