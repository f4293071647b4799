"""Routes of values to the partitions of the next stage, and states by key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, compress, islice
from typing import Any, NamedTuple

Payload = Any
KeyStates = Mapping[Any, Payload | None]
"""The state of each key, pickled by a worker and never read elsewhere; None: the key is forgotten."""
PLAIN = -1
"""The count of an item that is one value, and no ``Outputs``."""
_DEAD = b"\0", PLAIN
"""Stands for a value that is not to be had; its item goes nowhere."""


class Routes(NamedTuple):
    """The partition of each value, those of all items side by side. ``counts``: how many values each item has, or
    ``PLAIN``; None: each is one."""

    partitions: bytes
    counts: tuple[int, ...] | None = None

    def part(self, begin: int, end: int) -> Routes:
        """Those of items ``begin`` to before ``end``."""
        if self.counts is None:
            return Routes(self.partitions[begin:end])
        starts = [0, *accumulate(map(abs, self.counts))]
        return Routes(self.partitions[starts[begin] : starts[end]], self.counts[begin:end])

    def item_of(self, position: int) -> int:
        """The item that the value at this position belongs to."""
        if self.counts is None:
            return position
        return next(item for item, end in enumerate(accumulate(map(abs, self.counts))) if position < end)

    @staticmethod
    def anywhere(serial: int, count: int, partitions: int) -> Routes:
        """Where nobody said, and nothing is kept that could be missed."""
        return Routes(bytes((serial + at) % partitions for at in range(count)))


class Routed(NamedTuple):
    """A payload for a partitioned stage."""

    payload: Any
    routes: Routes


class Mosaic(NamedTuple):
    """A payload in parts: of each, which values are in it, a byte each. ``counts`` as in ``Routes``."""

    counts: tuple[int, ...] | None
    picks: tuple[bytes, ...]
    parts: tuple[Any, ...]

    def in_order(self, parts: Sequence[Sequence[Any]]) -> list[Any]:
        """Return what belongs to each value, given that of the values of each part; None where there is none."""
        found: list[Any] = [None] * len(self.picks[0])
        for picked, values in zip(self.picks, parts, strict=True):
            for at, value in zip(compress(range(len(picked)), picked), values, strict=True):
                found[at] = value
        return found


def merged(counts: tuple[int, ...] | None, picks: tuple[bytes, ...], routes: Sequence[Routes | None]) -> Routes | None:
    """The routes of all, from those of parts; None: some are not known."""
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
    """Return the number of values of an item, each of whose ``values`` became as many as ``rest`` says."""
    return next(rest) if values == PLAIN else sum(abs(next(rest)) for _ in range(values))


# States by key: one table for all partitions, and the keys that each partition has.
#
# A table per partition would be slower: keys that came one after the other lie side by side in one table, so a look
# reads less memory that is in no cache. With a million keys of a kilobyte, drawn at random, a look and a change took
# 1.2 us instead of 2.6.

# The states of keys that a task changed, side by side: dicts by partition would be the larger part of the work, with
# some eight keys in each.


class Changed(Mapping[int, KeyStates]):
    """The new states of one stage. By partition for those who ask, which few do."""

    __slots__ = ("_by_partition", "partitions", "states", "touched")

    def __init__(self, touched: Sequence[Any], partitions: bytes, states: Sequence[Payload | None]) -> None:
        """``touched``: keys, each once; ``partitions`` has the byte and ``states`` the state of each, in this order."""
        self.touched, self.partitions, self.states = touched, partitions, states
        self._by_partition: dict[int, dict[Any, Payload | None]] | None = None

    @classmethod
    def of(cls, changes: Mapping[int, KeyStates]) -> Changed:
        """The same of states by partition."""
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
"""Keys that a partition has no more are taken from its list when they are so many, and half of it."""


class StatesByKey:
    """A key is in one partition, always the same one."""

    def __init__(self, count: int) -> None:
        """Make a table of so many partitions."""
        self._states: dict[Any, Any] = {}
        self._keys: list[list[Any]] = [[] for _ in range(count)]
        """By partition; some are forgotten, or there twice."""
        self._forgotten = [0] * count

    @property
    def count(self) -> int:
        return len(self._keys)

    def __len__(self) -> int:
        return len(self._states)

    def looked_up(self, keys: Iterable[Any]) -> dict[Any, Any]:
        """The state of each of these; None: it has none."""
        return {key: self._states.get(key) for key in keys}

    def of(self, partition: int) -> dict[Any, Any]:
        """All states of a partition."""
        states = self._states
        return {key: states[key] for key in self._keys[partition] if key in states}

    def put(self, changed: Mapping[Any, Any], partitions: Callable[[], Mapping[Any, int]]) -> None:
        """The new states of keys (None: forgotten). ``partitions`` of them is asked where some are new or gone."""
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
        """All of a partition."""
        for key in self._keys[partition]:
            self._states.pop(key, None)
        self._keys[partition], self._forgotten[partition] = [], 0
