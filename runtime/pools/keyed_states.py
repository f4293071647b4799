"""States of keys on their way between a worker and its pool: all in one frame, one after the other.

As parts of a pickle each would be looked for in its memo and copied into a buffer that grows: 2,000 states of a
kilobyte took three times as long to write, and twice as long to read.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Mapping
from itertools import chain, islice
from typing import Any, NamedTuple

from runtime.dispatch.events import KeyStates

ByStage = Mapping[str, Mapping[int, KeyStates]]
"""By stage and partition."""
_NO_STATE = -1
_Keys = dict[str, list[tuple[int, list[Any]]]]


class Contents(NamedTuple):
    """What lies in a frame of states: by stage and partition its keys, and the length of each state in bytes, in this
    order; a negative one where the key is forgotten."""

    keys: _Keys
    lengths: bytes


def packed(states: ByStage) -> tuple[Contents, bytes]:
    """The states as one frame, and what lies in it."""
    parts = [part for stage in states.values() for part in stage.values()]
    every = list(chain.from_iterable(part.values() for part in parts))
    lengths = array("q", [_NO_STATE if state is None else len(state) for state in every])
    keys = {name: [(each, list(part)) for each, part in stage.items()] for name, stage in states.items()}
    return Contents(keys, lengths.tobytes()), b"".join(filter(None, every))


def unpacked(contents: Contents, frame: bytes | bytearray | memoryview) -> dict[str, dict[int, KeyStates]]:
    """Inverse of ``packed``. Raises: struct.error for another frame."""
    lengths = array("q", contents.lengths)
    every: tuple[bytes | None, ...] = struct.Struct(_form(lengths)).unpack(frame)
    if lengths and min(lengths) < 0:
        every = tuple(None if length < 0 else state for length, state in zip(lengths, every, strict=True))
    left = iter(every)
    return {
        name: {each: dict(zip(keys, islice(left, len(keys)), strict=True)) for each, keys in stage}
        for name, stage in contents.keys.items()
    }


def _form(lengths: array[int]) -> str:
    if lengths and lengths.count(lengths[0]) == len(lengths):
        return f"{max(0, lengths[0])}s" * len(lengths)
    return "".join([f"{max(0, length)}s" for length in lengths])
