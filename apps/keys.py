"""Keys of partitioned stages: check that a key is accepted, and compute its partition.

A partition must be the same in every process, on every machine and under every hash seed, so it is not made of Python's
``hash``. Keys that are equal to Python are one key, so ``True`` is 1 here too.
"""

import zlib
from bisect import bisect_right
from collections.abc import Hashable, Sequence
from typing import Any

from compositions.errors import RecomposeError, shown

MOST_PARTITIONS = 256
"""Maximum number of partitions, as a partition is stored in a byte."""
_PLAIN = frozenset({str, bytes, int, bool, type(None)})
_INT = b"i%x;"
_REMEMBERED = 100_000
_ASKED = 2_000_000
"""Number of keys computed with a full cache before it is cleared, as there may be fewer keys by then."""


class WrongKeyError(RecomposeError):
    """A value's key is of a type that may differ between processes."""


class Partitions(dict[Hashable, int]):
    """Computes the partitions of one stage's keys, and refuses wrong keys. If there are few keys, their partitions are
    cached; with very many, caching costs more than computing."""

    def __init__(self, count: int, bounds: Sequence[Any] = ()) -> None:
        """``bounds``: the first key of each partition but the first, for range partitioning; empty: by hash."""
        super().__init__()
        self._count = count
        self._bounds = bounds
        self._asked = 0
        """Number of keys computed since the cache was full."""

    def of(self, keys: list[Hashable]) -> bytes:
        """Return the partitions of ``keys``, a byte each. Raises: WrongKeyError for a key that is not str, bytes, int,
        bool, None or a tuple of these, or that cannot be compared with the bounds."""
        kinds = set(map(type, keys))
        if not kinds <= _PLAIN:
            for key in keys:
                _check(key)
        if self._bounds:
            return bytes(map(self._in_range, keys))
        if len(self) < _REMEMBERED:
            return bytes(map(self.__getitem__, keys))
        self._asked += len(keys)
        if self._asked > _ASKED:
            self._asked = 0
            self.clear()
        every = map(_INT.__mod__, keys) if kinds == {int} else map(written, keys)
        return bytes([check % self._count for check in map(zlib.crc32, every)])

    def _in_range(self, key: Any) -> int:
        try:
            return bisect_right(self._bounds, key)
        except TypeError:
            first = shown(self._bounds[0])
            raise WrongKeyError(f"key {shown(key)} cannot be compared with partition bounds such as {first}") from None

    def __missing__(self, key: Hashable) -> int:
        found = self[key] = zlib.crc32(written(key)) % self._count
        return found


def _check(key: object) -> None:
    if type(key) is tuple:
        for part in key:
            _check(part)
    elif type(key) not in _PLAIN:
        raise WrongKeyError(
            f"the key {shown(key)} is of type {type(key).__name__}; a key must be str, bytes, int, bool, None or a"
            " tuple of these, so that it is the same on every machine"
        )


def written(key: object) -> bytes:
    """Encode a key as bytes: equal keys give equal bytes, different keys different ones."""
    if isinstance(key, tuple):
        return b"(%d%b" % (len(key), b"".join(map(written, key)))
    if isinstance(key, str):
        text = key.encode(errors="surrogatepass")
        return b"s%d:%b" % (len(text), text)
    if isinstance(key, bytes):
        return b"b%d:%b" % (len(key), key)
    return b"n" if key is None else _INT % int(key)  # type: ignore[call-overload]
