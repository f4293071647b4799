"""What travels between a pool and its workers: messages of frames, and values as frames.

A frame is anything bytes-like; a value is the frames of its pickle (protocol 5), the large buffers out of band, so that
whoever carries a value need not look into it or copy it. A message is a header frame, the frames of the payload, then
those of the states.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

Frame = bytes | bytearray | memoryview
Frames = Sequence[Frame]

_HEADER = struct.Struct("<BHHIHQ")
_STATE = struct.Struct("<HI")
_NO_STATES: Mapping[int, Frames] = {}


class Kind(IntEnum):
    """What a message says. From the pool: TASK, EXIT. From a worker: HELLO, READY, DONE, FAILED."""

    TASK = 1
    EXIT = 2
    HELLO = 3
    READY = 4
    DONE = 5
    FAILED = 6


class Message(NamedTuple):
    """``first`` and ``span`` name adjacent stages by index and number; FAILED has the raising one in ``first``.

    ``states`` are keyed by stage index; ``timings`` hold wall and CPU seconds of each stage, in turn.
    """

    kind: int
    task_id: int = 0
    first: int = 0
    span: int = 0
    payload: Frames = ()
    states: Mapping[int, Frames] = _NO_STATES
    timings: tuple[float, ...] = ()


def pack(message: Message) -> list[Frame]:
    """The frames of a message, none of them copied but the header."""
    kind, task_id, first, span, payload, states, timings = message
    header = _HEADER.pack(kind, first, span, len(payload), len(states), task_id)
    frames = [b"", *payload]
    for stage, state in states.items():
        header += _STATE.pack(stage, len(state))
        frames += state
    if timings:
        header += struct.pack(f"<{len(timings)}d", *timings)
    frames[0] = header
    return frames


def unpack(frames: Frames) -> Message:
    """Inverse of ``pack``; payload and states are lists of the given frames themselves."""
    header = frames[0]
    kind, first, span, payload_frames, state_count, task_id = _HEADER.unpack_from(header)
    offset, end = _HEADER.size, 1 + payload_frames
    payload = frames[1:end]
    states: dict[int, Frames] = {}
    for _ in range(state_count):
        stage, length = _STATE.unpack_from(header, offset)
        states[stage] = frames[end : end + length]
        offset, end = offset + _STATE.size, end + length
    timings = struct.unpack_from(f"<{(len(header) - offset) // 8}d", header, offset) if len(header) > offset else ()
    return Message(kind, task_id, first, span, payload, states, timings)


class FrameCodec:
    """Values as frames. What ``encode`` was given must not change until its result has been carried."""

    def encode(self, value: Any) -> list[Frame]:
        """Raises: whatever pickle raises on a value that cannot be pickled."""
        buffers: list[pickle.PickleBuffer] = []
        pickled = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
        return [pickled, *(buffer.raw() for buffer in buffers)]

    def decode(self, payload: Frames) -> Any:
        """Large arrays share the memory of their frame."""
        return pickle.loads(payload[0], buffers=payload[1:])
