"""The wire format between a pool and its workers: messages as bytes.

A message is a head of fixed size, a table (lengths of the frames, timings, states), then the frames
(:mod:`runtime.transport.values`) of the payload, then the frames of the states.
"""

import struct
from collections.abc import Mapping, Sequence
from enum import IntEnum
from functools import cache
from itertools import chain
from typing import NamedTuple, cast

from runtime.arena.reference import Reference
from runtime.construct import construct_fast
from runtime.transport.values import Carried, Frame, Frames

HEAD = struct.Struct("<QQIIIIBHHHH7x")
"""Bytes after the head, task id, bytes of the table, number of payload frames, start, items, kind, first, span, number
of timings, number of states. 48 bytes, so that data after the head is aligned if the head is."""
_STATE = struct.Struct("<HI")
_REFERENCE = struct.Struct("<QQQ")
_REFERRED = 1 << 63
"""The bit in a frame's length that marks a reference."""
_MARKED = 0x80
"""The same bit in the highest byte of the length."""
_NO_STATES: Mapping[int, Frames] = {}
_ALONE_UP_TO_BYTES = 32 * 1024
"""Maximum size of a frame that is copied into one piece with its head."""
_ALIGN = 16
_PADDING = [bytes(size) for size in range(_ALIGN)]


class Kind(IntEnum):
    """The kinds of messages. From the pool: TASK, EXIT. From a worker: READY, DONE, PARTLY, FAILED. From both: HELLO,
    and ALIVE, whose answer repeats the ``task_id`` of the question."""

    TASK = 1
    EXIT = 2
    HELLO = 3
    READY = 4
    DONE = 5
    FAILED = 6
    PARTLY = 7
    """Done except for some items, which the first frame lists."""
    ALIVE = 8


class Message(NamedTuple):
    """A message. ``first`` and ``span``: adjacent stages, by index of the first and their number; FAILED has the stage
    that raised in ``first``. ``start`` and ``items``: the items of the payload. FAILED has the position of the item at
    fault in ``start``, and ``items`` is 0 if any may be at fault. DONE and PARTLY have the number of values of all
    items in ``start``. READY has ``items`` of 0 if the worker answers in any order.

    ``states``: by stage index. ``timings``: wall and CPU seconds of each stage, alternating. ``blocks`` of a TASK:
    start and size of the room for new large frames, or empty; of an answer: the blocks that the worker has released.
    """

    kind: int
    task_id: int = 0
    first: int = 0
    span: int = 0
    payload: Sequence[Carried] = ()
    states: Mapping[int, Sequence[Carried]] = _NO_STATES
    timings: Sequence[float] = ()
    start: int = 0
    items: int = 1
    blocks: Sequence[int] = ()


def plain_text(frame: Carried) -> bytes:
    """Return a frame that is no value as bytes. Raises: ValueError for a reference, which only values may be."""
    if isinstance(frame, Reference):
        raise ValueError(f"expected bytes, received {frame}")
    return bytes(frame)


def pack_alone(message: Message) -> bytes | None:
    """Return a message with a single small frame (the usual case) as bytes; None for others, which need ``pack``."""
    kind, task_id, first, span, payload, states, timings, start, items, blocks = message
    if len(payload) != 1 or states or blocks or isinstance(frame := payload[0], Reference):
        return None
    timing_count, length = len(timings), len(frame)
    if length > _ALONE_UP_TO_BYTES:
        return None
    table_size = 8 + 8 * timing_count
    numbers = table_size + length, task_id, table_size, 1, start, items, kind, first, span, timing_count, 0, length
    return _head_of_one(timing_count).pack(*numbers, *timings) + frame


def unpack_alone(head: tuple[int, ...], buffer: memoryview, begin: int) -> Message | None:
    """Read a message of ``pack_alone``, given the unpacked head and the position in the buffer after it. The frame is a
    read-only copy, which suffices for a pickle. None: the message needs ``unpack``."""
    size, task_id, table_size, payload_frames, start, items, kind, first, span, timing_count, state_count = head
    if payload_frames != 1 or state_count or not 8 * (1 + timing_count) == table_size <= size:
        return None
    if buffer[begin + 7] >= _MARKED:
        return None
    timings = _doubles(timing_count).unpack_from(buffer, begin + 8) if timing_count else ()
    frame = buffer[begin + table_size : begin + size].tobytes()
    return construct_fast(Message, (kind, task_id, first, span, [frame], _NO_STATES, timings, start, items, ()))


def pack(message: Message) -> tuple[list[Frame], int]:
    """Return the parts of a message, to be sent one after the other, and their total size; frames are not copied."""
    kind, task_id, first, span, payload, states, timings, start, items, blocks = message
    lengths, frames = _plain([*payload, *chain.from_iterable(states.values())] if states else payload)
    table = struct.pack(f"<{len(frames)}Q{len(timings)}d{len(blocks)}Q", *lengths, *timings, *blocks)
    for stage, state in states.items():
        table += _STATE.pack(stage, len(state))
    parts = _aligned(len(table), frames) if len(frames) > 1 else [*frames]
    size = len(table) + sum(map(len, parts))
    counts = len(table), len(payload), start, items
    head = HEAD.pack(size, task_id, *counts, kind, first, span, len(timings), len(states))
    return [head + table, *parts], HEAD.size + size


def unpack(head: tuple[int, ...], body: memoryview) -> Message:
    """Read a message of ``pack``, given the unpacked head and the body. Frames share its memory, except a small one."""
    if head[0] <= _ALONE_UP_TO_BYTES and (alone := unpack_alone(head, body, 0)) is not None:
        return alone
    _, task_id, table_size, payload_frames, start, items, kind, first, span, timing_count, state_count = head
    states_at = table_size - state_count * _STATE.size
    entries = list(_STATE.iter_unpack(body[states_at:table_size]))
    frame_count = payload_frames + sum(count for _, count in entries)
    block_count, timings_to = states_at // 8 - frame_count - timing_count, frame_count + timing_count
    numbers = struct.unpack_from(f"<{frame_count}Q{timing_count}d{block_count}Q", body)
    frames = _cut(body, table_size, numbers[:frame_count])
    states, begin = {}, payload_frames
    for stage, count in entries:
        states[stage] = frames[begin : begin + count]
        begin += count
    timings, blocks = numbers[frame_count:timings_to], numbers[timings_to:]
    return Message(kind, task_id, first, span, frames[:payload_frames], states, timings, start, items, blocks)


@cache
def _head_of_one(timings: int) -> struct.Struct:
    """Return the format of head and table of a message with one frame."""
    return struct.Struct(f"{HEAD.format}Q{timings}d")


@cache
def _doubles(count: int) -> struct.Struct:
    return struct.Struct(f"<{count}d")


def _plain(frames: Sequence[Carried]) -> tuple[Sequence[int], Frames]:
    """Return the lengths for the table and the frames to send; a reference becomes three numbers, its length marked."""
    if Reference not in map(type, frames):
        return list(map(len, frames)), cast(Frames, frames)
    lengths: list[int] = []
    sent: list[Frame] = []
    for frame in frames:
        if isinstance(frame, Reference):
            lengths.append(_REFERENCE.size | _REFERRED)
            sent.append(_REFERENCE.pack(frame.block, frame.start, frame.size))
        else:
            lengths.append(len(frame))
            sent.append(frame)
    return lengths, sent


def _aligned(offset: int, frames: Frames) -> list[Frame]:
    """Insert padding before every frame, to align arrays in the received memory; a lone frame never is an array."""
    parts: list[Frame] = []
    for frame in frames:
        padding = -offset % _ALIGN
        parts += _PADDING[padding], frame
        offset += padding + len(frame)
    return parts


def _cut(body: memoryview, offset: int, lengths: Sequence[int]) -> list[Carried]:
    frames: list[Carried] = []
    for length in lengths:
        if len(lengths) > 1:
            offset += -offset % _ALIGN
        size = length & ~_REFERRED
        frame = body[offset : offset + size]
        frames.append(frame if size == length else Reference(*_REFERENCE.unpack(frame)))
        offset += size
    return frames


PIECE_BYTES = 128 * 1024


def pieces(parts: Sequence[Frame]) -> list[Frame]:
    """Split a packed message into pieces that are encrypted one by one: while one piece is on its way, the next is
    encrypted and the previous one decrypted. Large frames are not copied."""
    found: list[Frame] = []
    small: list[Frame] = []
    size = 0
    for part in parts:
        if small and size + len(part) > PIECE_BYTES:
            found.append(b"".join(small))
            small, size = [], 0
        if len(part) > PIECE_BYTES:
            view = memoryview(part)
            found += [view[at : at + PIECE_BYTES] for at in range(0, len(view), PIECE_BYTES)]
        else:
            small.append(part)
            size += len(part)
    return [*found, b"".join(small)] if small else found
