"""Keys of partitioned stages: which are accepted, and which partition each falls into.

A partition must be the same in every process, on every machine and under every hash seed, so it is not made of Python's
``hash``. Keys that are equal to Python are one key, so ``True`` is 1 here too.
"""

from __future__ import annotations

import zlib
from collections.abc import Hashable, Iterable, Iterator

from compositions.errors import RecomposeError, shown

MOST_PARTITIONS = 256
"""A partition is a byte wherever those of many values are looked at together."""
_PLAIN = frozenset({str, bytes, int, bool, type(None)})
_REMEMBERED = 100_000


class WrongKeyError(RecomposeError):
    """A value's key is none that is the same everywhere."""


class Partitions(dict[Hashable, int]):
    """The partition of each key of one stage; those seen lately are looked up. Ask ``of``: it refuses wrong keys."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self._count = count

    def of(self, keys: list[Hashable]) -> bytes:
        """The partitions of ``keys``, a byte each.

        Raises: WrongKeyError for one that is not str, bytes, int, bool, None or a tuple of these.
        """
        if not _PLAIN.issuperset(map(type, keys)):
            for key in keys:
                _check(key)
        if len(self) > _REMEMBERED:
            self.clear()
        return bytes(map(self.__getitem__, keys))

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
    """Bytes that tell any two keys apart, and write equal ones alike."""
    return b"".join(_written(key))


def _written(key: object) -> Iterator[bytes]:
    if isinstance(key, tuple):
        yield b"(%d" % len(key)
        yield from _all_written(key)
    elif isinstance(key, str):
        text = key.encode(errors="surrogatepass")
        yield b"s%d:%s" % (len(text), text)
    elif isinstance(key, bytes):
        yield b"b%d:%s" % (len(key), key)
    elif key is None:
        yield b"n"
    else:
        yield b"i%x;" % int(key)  # type: ignore[call-overload]


def _all_written(keys: Iterable[object]) -> Iterator[bytes]:
    for key in keys:
        yield from _written(key)
