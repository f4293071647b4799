"""States of keys on their way between a worker and its pool: all in one frame, one after the other.

As parts of a pickle each would be looked for in its memo and copied into a buffer that grows: 2,000 states of a
kilobyte took three times as long to write, and twice as long to read.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Mapping, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple, cast

from runtime.dispatch.changed import Changed
from runtime.dispatch.events import KeyStates

Frame = bytes | bytearray | memoryview
ByStage = Mapping[str, Mapping[int, KeyStates]]
"""By stage and partition."""
_NO_STATE = -1
_Keys = dict[str, list[tuple[int, list[Any]]]]


class Contents(NamedTuple):
    """What lies in a frame of states: by stage and partition its keys, and the length of each state in bytes, in this
    order; a negative one where the key is forgotten."""

    keys: _Keys
    lengths: bytes


class Made(NamedTuple):
    """The same of what a task made, where no partition is without a key: by stage the keys and their partitions."""

    keys: dict[str, tuple[Sequence[Any], bytes]]
    lengths: bytes


def packed(states: ByStage) -> tuple[Contents, bytes]:
    """The states as one frame, and what lies in it."""
    parts = [part for stage in states.values() for part in stage.values()]
    lengths, frame = _joined(list(chain.from_iterable(part.values() for part in parts)))
    keys = {name: [(each, list(part)) for each, part in stage.items()] for name, stage in states.items()}
    return Contents(keys, lengths), frame


def unpacked(contents: Contents, frame: Frame) -> dict[str, dict[int, KeyStates]]:
    """Inverse of ``packed``. Raises: struct.error for another frame."""
    left = iter(_cut(contents.lengths, frame))
    return {
        name: {each: dict(zip(keys, islice(left, len(keys)), strict=True)) for each, keys in stage}
        for name, stage in contents.keys.items()
    }


def packed_changes(changes: ByStage) -> tuple[Made, bytes]:
    """As ``packed``, for what a task made."""
    made = {name: Changed.of(each) for name, each in changes.items()}
    lengths, frame = _joined([state for each in made.values() for state in each.states])
    return Made({name: (each.touched, each.partitions) for name, each in made.items()}, lengths), frame


def unpacked_changes(made: Made, frame: Frame) -> dict[str, Changed]:
    """Inverse of ``packed_changes``. Raises: struct.error for another frame."""
    every, begin, changes = _cut(made.lengths, frame), 0, {}
    for name, (keys, partitions) in made.keys.items():
        changes[name] = Changed(keys, partitions, every[begin : begin + len(keys)])
        begin += len(keys)
    return changes


def _joined(every: list[bytes | None]) -> tuple[bytes, bytes]:
    """Lengths of the states, and these one after the other."""
    if None in every:
        lengths = array("q", [_NO_STATE if state is None else len(state) for state in every])
        return lengths.tobytes(), b"".join(filter(None, every))
    there = cast(list[bytes], every)
    return array("q", list(map(len, there))).tobytes(), b"".join(there)


def _cut(given: bytes, frame: Frame) -> tuple[bytes | None, ...]:
    lengths = array("q", given)
    every: tuple[bytes | None, ...] = struct.Struct(_form(lengths)).unpack(frame)
    if lengths and min(lengths) < 0:
        every = tuple(None if length < 0 else state for length, state in zip(lengths, every, strict=True))
    return every


def _form(lengths: array[int]) -> str:
    if lengths and lengths.count(lengths[0]) == len(lengths):
        return f"{max(0, lengths[0])}s" * len(lengths)
    return "".join([f"{max(0, length)}s" for length in lengths])
