"""Encode the values of a bundle as frames, and decode them: in as few pickles as can be, and each alone where one may
fail.

A frame is anything bytes-like. Plain data (numbers, texts, lists, dicts ...) is one pickle for all values: that costs
some 10 ns a number, where a pickle each costs 150. A value of any other class may run code of its own when it is
unpickled, and that may raise; so those get a pickle each, and one that fails is alone in it. Items of several values or
none (``Outputs``) go as all their values side by side with the number of each: 110 ns an item, where a pickle of these
objects costs 900.
"""

import io
import pickle
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress, islice
from typing import Any, NoReturn, TypeGuard

import numpy as np
from numpy import ndarray
from numpy.typing import NDArray

from apps.contract import Outputs
from runtime.arena.frame_store import Copies, Shelf
from runtime.arena.reference import LARGE_BYTES, Reference
from runtime.dispatch.keys import PLAIN, Mosaic


@dataclass(frozen=True, slots=True)
class Broken:
    """``why`` is the traceback."""

    why: str


def any_outputs(values: Iterable[Any]) -> bool:
    """Some 15 ns an item where this process has ever had any, else nothing."""
    return Outputs.made and Outputs in set(map(type, values))


def count_values(items: Sequence[Any]) -> int:
    """Return the number of values of all items together."""
    if not any_outputs(items):
        return len(items)
    return sum(len(item) if type(item) is Outputs else 1 for item in items)


def spread(values: Iterable[Any]) -> tuple[list[Any], list[int]]:
    """All values of all items in one list, and how many each item has, or ``PLAIN``."""
    flat: list[Any] = []
    counts: list[int] = []
    for value in values:
        if type(value) is Outputs:
            flat += value
            counts.append(len(value))
        else:
            flat.append(value)
            counts.append(PLAIN)
    return flat, counts


def picked_of(items: Sequence[Any], picked: bytes, counts: Sequence[int] | None) -> list[Any]:
    """Return the values of all items for which ``picked`` has a 1. ``counts``: how many each item was said to have, or
    ``PLAIN``, None if all are; an item that is broken now stands for each of its values."""
    flat: list[Any] = []
    for value, count in zip(items, counts or (PLAIN,) * len(items), strict=True):
        flat += value if type(value) is Outputs else [value] * abs(count)  # PLAIN: one
    assert len(flat) == len(picked), f"items with {len(picked)} values came with {len(flat)}"
    return list(compress(flat, picked))


def gathered(flat: Iterable[Any], counts: Iterable[int]) -> list[Any]:
    """Inverse of ``spread``."""
    rest = iter(flat)
    return [next(rest) if count == PLAIN else Outputs(islice(rest, count)) for count in counts]


def unnested(items: Sequence[Any]) -> list[Any]:
    """Outputs among the values of an item are values of the item."""
    if not any_outputs(chain.from_iterable(item for item in items if type(item) is Outputs)):
        return list(items)
    return [_unnested(item) if type(item) is Outputs else item for item in items]


def owners(counts: Iterable[int]) -> list[int]:
    """For each value of the flat list the position of its item."""
    return list(chain.from_iterable([at] * abs(count) for at, count in enumerate(counts)))  # PLAIN: one


def _unnested(values: Outputs) -> Outputs:
    while any_outputs(values):
        values = Outputs(spread(values)[0])
    return values


def put_together(mosaic: Mosaic, decode: Callable[[Any], list[Any]]) -> list[Any]:
    """The items of a payload in parts, each of which ``decode`` makes values of; one with a broken value is broken."""
    flat = mosaic.in_order([decode(part) for part in mosaic.parts])
    if mosaic.counts is None:
        return flat
    items = gathered(flat, mosaic.counts)
    if Broken in set(map(type, flat)):
        items = [_broken_in(item) or item for item in items]
    return unnested(items)


def _broken_in(item: Any) -> Broken | None:
    values = item if type(item) is Outputs else ()
    return next((each for each in values if type(each) is Broken), None)


# Encode a large array, such as a video frame, by its type and shape: its pickle names a function and a class, which
# costs ten times as much to write and to read at every hop.

_NUMBERS = "biufc"


def is_lone_array(value: object) -> TypeGuard[NDArray[Any]]:
    """Return whether ``described`` says all there is to say of it, beside its bytes."""
    return (
        type(value) is np.ndarray
        and value.nbytes >= LARGE_BYTES
        and value.flags.c_contiguous
        and value.dtype.isbuiltin == 1
        and value.dtype.kind in _NUMBERS
    )


def described(array: NDArray[Any]) -> dict[str, Any]:
    """Return what ``array_of`` needs."""
    return {"dtype": array.dtype.str, "shape": array.shape}


def array_of(description: Mapping[str, Any], frame: Any) -> NDArray[Any]:
    """The array, which shares the memory of the frame. Raises: whatever NumPy raises where the two do not fit."""
    return np.ndarray(description["shape"], description["dtype"], frame)


Frame = bytes | bytearray | memoryview
Frames = Sequence[Frame]
Carried = Frame | Reference
"""A large frame may travel as what says where it lies, in memory that both sides share (``runtime/arena/``)."""
KeepBuffer = Callable[[pickle.PickleBuffer], Any]


def pickled(values: Sequence[Any], keep: KeepBuffer | None = None) -> bytes:
    """The pickle of a list of values, of a dict of values side by side and how many each item has, or of a tuple of
    their own pickles, each with its number of buffers; of a lone large array, what ``array_of`` needs. ``keep`` gets
    the large buffers; without it they are in the pickle.

    Raises: whatever pickle raises on a value that cannot be pickled.
    """
    if len(values) == 1:
        if type(values[0]) is ndarray and keep is not None and is_lone_array(values[0]):
            keep(pickle.PickleBuffer(values[0].data))
            return pickle.dumps(described(values[0]), protocol=5)
        return pickle.dumps(values if isinstance(values, list) else list(values), protocol=5, buffer_callback=keep)
    file = io.BytesIO()
    try:
        _PlainPickler(file, protocol=5).dump(values if isinstance(values, list) else list(values))
        return file.getvalue()
    except _NotPlainError:
        if any_outputs(values) and (spread_ := _pickled_spread(values)) is not None:
            return spread_
        return pickle.dumps(tuple(_each(values, keep)), protocol=5)


def unpickled(pickle_: Frame, buffers: Sequence[Frame], start: int = 0, stop: int | None = None) -> list[Any]:
    """The values from ``start`` to before ``stop`` (None: to the end); those that cannot be had are ``Broken``."""
    try:
        read = pickle.loads(pickle_, buffers=buffers)
        if type(read) is list:
            return read if start == 0 and (stop is None or stop >= len(read)) else read[start:stop]
        if isinstance(read, dict) and "shape" in read:
            return [array_of(read, buffers[0])][start:stop]
    except Exception:
        return [Broken(traceback.format_exc())]  # it is alone: several have a pickle each
    if isinstance(read, dict):
        return gathered(read["values"], read["counts"])[start:stop]
    stop = len(read) if stop is None else stop
    left = iter(buffers[sum(count for _, count in read[:start]) :])
    return [_load(own, list(islice(left, count))) for own, count in read[start:stop]]


def _pickled_spread(values: Sequence[Any]) -> bytes | None:
    """All values of the items side by side, if they are plain."""
    file, (flat, counts) = io.BytesIO(), spread(values)
    try:
        _PlainPickler(file, protocol=5).dump({"values": flat, "counts": counts})
    except _NotPlainError:
        return None
    return file.getvalue()


def _each(values: Sequence[Any], keep: KeepBuffer | None) -> Iterator[tuple[bytes, int]]:
    for value in values:
        buffers: list[pickle.PickleBuffer] = []
        own = pickle.dumps(value, protocol=5, buffer_callback=buffers.append if keep else None)
        yield own, len(buffers)
        for buffer in buffers:
            assert keep is not None, "buffers are out of band for somebody"
            keep(buffer)


def _load(own: Frame, buffers: Sequence[Frame]) -> Any:
    try:
        return pickle.loads(own, buffers=buffers)
    except Exception:
        return Broken(traceback.format_exc())


class _NotPlainError(Exception):
    """There is a value that is no plain data."""


class _PlainPickler(pickle.Pickler):
    """Asked for the first object that is no number, text, list, dict or the like, it gives up."""

    def reducer_override(self, obj: object) -> NoReturn:
        raise _NotPlainError


class FrameCodec:
    """Values as frames, for workers in other processes; a shelf keeps the frames."""

    def __init__(self, shelf: Shelf | None = None) -> None:
        """By default frames have memory of their own: a source may use its buffer again while its items wait."""
        self._shelf = shelf or Copies()

    def encode(self, values: Sequence[Any]) -> list[Carried]:
        """The first frame is a pickle (protocol 5), the others are the large buffers, out of band, so that whoever
        carries the values need not look into them or copy them.

        Raises: whatever pickle raises on a value that cannot be pickled.
        """
        buffers: list[pickle.PickleBuffer] = []
        first = pickled(values, buffers.append)
        if not buffers and len(first) < LARGE_BYTES:  # a small pickle by itself goes as it is, whatever the shelf
            return [first]
        return self._shelf.keep([first, *(buffer.raw() for buffer in buffers)])

    def size_bytes(self, payload: Sequence[Carried] | Mosaic) -> int:
        if len(payload) == 1:
            return len(payload[0])
        return sum(map(self.size_bytes, payload.parts)) if isinstance(payload, Mosaic) else sum(map(len, payload))

    def decode(self, payload: Sequence[Carried] | Mosaic, start: int = 0, stop: int | None = None) -> list[Any]:
        """Large arrays share the memory of their frame; a value that cannot be unpickled is ``Broken``."""
        if len(payload) == 1 and type(frame := payload[0]) is bytes:  # as most are, and nothing to be opened
            return unpickled(frame, (), start, stop)
        if isinstance(payload, Mosaic):
            return put_together(payload, self.decode)[start:stop]
        first, *buffers = self._shelf.open(payload)
        return unpickled(first, buffers, start, stop)
