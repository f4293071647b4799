"""The wire format between a pool and its workers: messages as bytes.

A message is a head of fixed size, a table (lengths of the frames, timings, states), then the frames
(:mod:`runtime.transport.values`): those of the payload, those of the states.
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
"""Size of what follows, task id, size of the table, payload frames, start, items, kind, first, span, timings, states.
48 bytes: what follows is aligned where the head is."""
_STATE = struct.Struct("<HI")
_REFERENCE = struct.Struct("<QQQ")
_REFERRED = 1 << 63
"""Marks the length of a frame whose bytes are a reference."""
_MARKED = 0x80
"""What its highest byte is then, at least."""
_NO_STATES: Mapping[int, Frames] = {}
_ALONE_UP_TO_BYTES = 32 * 1024
"""A larger frame is not copied."""
_ALIGN = 16
_PADDING = [bytes(size) for size in range(_ALIGN)]


class Kind(IntEnum):
    """The kinds of messages. From the pool: TASK, EXIT. From a worker: READY, DONE, PARTLY, FAILED. From both:
    HELLO, and ALIVE, whose ``task_id`` is what it was asked with."""

    TASK = 1
    EXIT = 2
    HELLO = 3
    READY = 4
    DONE = 5
    FAILED = 6
    PARTLY = 7
    """DONE but for some items: the first frame says which."""
    ALIVE = 8


class Message(NamedTuple):
    """``first`` and ``span`` name adjacent stages by index and number; FAILED has the raising one in ``first``.
    ``start`` and ``items`` say which items of the payload; FAILED has the position of the one at fault in ``start``,
    and ``items`` of 0 where any may be; DONE and PARTLY have the number of values of all items in ``start``. READY has
    ``items`` of 0 from a worker that answers in any order.

    ``states`` are keyed by stage index; ``timings`` hold wall and CPU seconds of each stage, in turn. ``blocks`` of a
    TASK: start and size of the room for new large frames, if there is any; of an answer: the blocks that were let go.
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
    """A frame of a message about the worker, not of a value. Raises: ValueError for a reference: only values go so."""
    if isinstance(frame, Reference):
        raise ValueError(f"{frame} came where bytes were expected")
    return bytes(frame)


def pack_alone(message: Message) -> bytes | None:
    """A message of one small frame in one piece, as most are; None: it is another one, and for ``pack``."""
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
    """Inverse of ``pack_alone``, given the unpacked head and where in the buffer begins what follows it. The frame is
    a copy, and not to be written on: by itself it is a pickle, which nobody does. None: it is for ``unpack``."""
    size, task_id, table_size, payload_frames, start, items, kind, first, span, timing_count, state_count = head
    if payload_frames != 1 or state_count or not 8 * (1 + timing_count) == table_size <= size:
        return None
    if buffer[begin + 7] >= _MARKED:
        return None
    timings = _doubles(timing_count).unpack_from(buffer, begin + 8) if timing_count else ()
    frame = buffer[begin + table_size : begin + size].tobytes()
    return construct_fast(Message, (kind, task_id, first, span, [frame], _NO_STATES, timings, start, items, ()))


def pack(message: Message) -> tuple[list[Frame], int]:
    """The parts of a message, to be sent one after the other, and their size; frames are among them, not copied."""
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
    """Inverse of ``pack``, given the unpacked head and all that followed it; the frames share the body's memory, but
    for a small one by itself."""
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
    """Head and table of a message with one frame."""
    return struct.Struct(f"{HEAD.format}Q{timings}d")


@cache
def _doubles(count: int) -> struct.Struct:
    return struct.Struct(f"<{count}d")


def _plain(frames: Sequence[Carried]) -> tuple[Sequence[int], Frames]:
    """The lengths for the table, and what is sent: of a frame by reference three numbers, and a length that says so."""
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
    """Padding before every frame, so that an array that will share its memory is aligned; a lone frame is none."""
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
    """Return the pieces in which a packed message is encrypted, one after the other: while one is on its way, the next
    is encrypted, and the one before is deciphered. Large frames are not copied."""
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
