"""What travels between a pool and its workers: values as frames, and messages as bytes.

A frame is anything bytes-like. A value is the frames of its pickle (protocol 5), the large buffers out of band, so that
whoever carries a value need not look into it or copy it. A message is a head of fixed size, a table (lengths of the
frames, timings, states), then the frames: those of the payload, those of the states.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Mapping, Sequence
from enum import IntEnum
from itertools import chain
from typing import Any, NamedTuple

Frame = bytes | bytearray | memoryview
Frames = Sequence[Frame]

HEAD = struct.Struct("<QQIIBHHHH15x")
"""Size of what follows, task id, size of the table, payload frames, kind, first, span, timings, states. 48 bytes: what
follows is aligned where the head is."""
_STATE = struct.Struct("<HI")
_NO_STATES: Mapping[int, Frames] = {}
_ALIGN = 16
_PADDING = [bytes(size) for size in range(_ALIGN)]


class Kind(IntEnum):
    """What a message says. From the pool: TASK, EXIT. From a worker: READY, DONE, FAILED. From both: HELLO."""

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
    timings: Sequence[float] = ()


def pack(message: Message) -> tuple[list[Frame], int]:
    """The parts of a message, to be sent one after the other, and their size; frames are among them, not copied."""
    kind, task_id, first, span, payload, states, timings = message
    frames = [*payload, *chain.from_iterable(states.values())] if states else payload
    table = struct.pack(f"<{len(frames)}Q{len(timings)}d", *map(len, frames), *timings)
    for stage, state in states.items():
        table += _STATE.pack(stage, len(state))
    parts = _aligned(len(table), frames) if len(frames) > 1 else [*frames]
    size = len(table) + sum(map(len, parts))
    head = HEAD.pack(size, task_id, len(table), len(payload), kind, first, span, len(timings), len(states))
    return [head + table, *parts], HEAD.size + size


def unpack(head: tuple[int, ...], body: memoryview) -> Message:
    """Inverse of ``pack``, given the unpacked head and all that followed it; the frames share the body's memory."""
    _, task_id, table_size, payload_frames, kind, first, span, timing_count, state_count = head
    if not state_count and payload_frames == 1:
        timings = struct.unpack_from(f"<{timing_count}d", body, 8)
        return Message(kind, task_id, first, span, [body[table_size:]], _NO_STATES, timings)
    states_at = table_size - state_count * _STATE.size
    entries = list(_STATE.iter_unpack(body[states_at:table_size]))
    frame_count = payload_frames + sum(count for _, count in entries)
    numbers = struct.unpack_from(f"<{frame_count}Q{timing_count}d", body)
    frames = _cut(body, table_size, numbers[:frame_count])
    states, begin = {}, payload_frames
    for stage, count in entries:
        states[stage] = frames[begin : begin + count]
        begin += count
    return Message(kind, task_id, first, span, frames[:payload_frames], states, numbers[frame_count:])


def _aligned(offset: int, frames: Frames) -> list[Frame]:
    """Padding before every frame, so that an array which will share its memory is aligned. Not needed for a lone frame:
    that is a pickle and no array."""
    parts: list[Frame] = []
    for frame in frames:
        padding = -offset % _ALIGN
        parts += _PADDING[padding], frame
        offset += padding + len(frame)
    return parts


def _cut(body: memoryview, offset: int, lengths: Sequence[int]) -> list[memoryview]:
    frames = []
    for length in lengths:
        if len(lengths) > 1:
            offset += -offset % _ALIGN
        frames.append(body[offset : offset + length])
        offset += length
    return frames


def frames_of(value: Any) -> list[Frame]:
    """A value as frames that share its memory: it must not change until they have been carried.

    Raises: whatever pickle raises on a value that cannot be pickled.
    """
    buffers: list[pickle.PickleBuffer] = []
    frames: list[Frame] = [pickle.dumps(value, protocol=5, buffer_callback=buffers.append)]
    for buffer in buffers:
        frames.append(buffer.raw())  # noqa: PERF401 - mostly there is none
    return frames


class FrameCodec:
    """Values as frames."""

    def encode(self, value: Any) -> list[Frame]:
        """Frames with memory of their own: a source may use its buffer again while its item waits.

        Raises: as ``frames_of``.
        """
        pickled, *buffers = frames_of(value)
        return [pickled, *map(bytes, buffers)]

    def size_bytes(self, payload: Frames) -> int:
        return sum(map(len, payload))

    def decode(self, payload: Frames) -> Any:
        """Large arrays share the memory of their frame."""
        return pickle.loads(payload[0], buffers=payload[1:])
