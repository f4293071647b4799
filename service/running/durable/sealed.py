"""Values as bytes that show whether they are still what was written."""

from __future__ import annotations

import pickle
import zlib
from typing import Any

_CHECK_BYTES = 4


class Damaged(ValueError):  # noqa: N818 - says what happened to it
    """These bytes are not what was written."""


def sealed(value: Any) -> bytes:
    """Raises: what pickle raises on a value that cannot be pickled."""
    body = pickle.dumps(value, protocol=5)
    return zlib.crc32(body).to_bytes(_CHECK_BYTES, "big") + body


def mark(*names: object) -> int:
    """Of what stands beside a body and says whose it is. Marks of many are joined by exclusive or, in any order, so
    that one that is another now shows, and one that came or went is a step."""
    return zlib.crc32(repr(names).encode())


def unsealed(stored: bytes) -> Any:
    """Nothing is made of bytes whose check sum is wrong. Raises: Damaged."""
    body = memoryview(stored)[_CHECK_BYTES:]
    if len(stored) < _CHECK_BYTES or zlib.crc32(body) != int.from_bytes(stored[:_CHECK_BYTES], "big"):
        raise Damaged("a record has another check sum than when it was written")
    return pickle.loads(body)
