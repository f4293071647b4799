"""The checksum chain: each stage folds its name into it, so a result tells the stages an item passed, in order."""

from __future__ import annotations

import hashlib
import zlib

import numpy as np
from numpy.typing import NDArray

_BYTES = 8
_PROBE = 64
"""Payload bytes looked at from either end: a full checksum of a frame would cost more than a hop."""


def first_link(seed: int, item: int) -> bytes:
    """What an item starts with."""
    return hashlib.blake2b(f"{seed}:{item}".encode(), digest_size=_BYTES).digest()


def next_link(link: bytes, stage: str, payload: NDArray[np.uint8] | None = None) -> bytes:
    """The chain after ``stage``; a payload that was cut or mixed up changes it."""
    return hashlib.blake2b(link + stage.encode() + probe(payload), digest_size=_BYTES).digest()


def probe(payload: NDArray[np.uint8] | None) -> bytes:
    if payload is None:
        return b""
    ends = payload[:_PROBE].tobytes() + payload[-_PROBE:].tobytes()
    return f"{len(payload)}:{zlib.crc32(ends)}".encode()
