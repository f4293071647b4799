"""Encode the values of a bundle as frames, and decode them. Values that might fail to unpickle get a pickle each.

A frame is a bytes-like object. Plain data (numbers, strings, lists, dicts ...) becomes one pickle for all values, at
about 10 ns per number; a pickle per number would cost 150 ns. A value of another class may run its own code when it is
unpickled, which may raise; so each such value gets its own pickle, and a failure affects it alone. The values of
``Outputs`` (an item with any number of values) go into one list, with the number of each item: 110 ns per item,
where a pickle of these objects costs 900 ns.
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
    """A placeholder for a value that could not be unpickled; ``why`` is the traceback."""

    why: str


def any_outputs(values: Iterable[Any]) -> bool:
    """Return whether some values are ``Outputs``: 15 ns per item, or no time if this process never made any."""
    return Outputs.made and Outputs in set(map(type, values))


def count_values(items: Sequence[Any]) -> int:
    """Return the number of values of all items together."""
    if not any_outputs(items):
        return len(items)
    return sum(len(item) if type(item) is Outputs else 1 for item in items)


def spread(values: Iterable[Any]) -> tuple[list[Any], list[int]]:
    """Return the values of all items in one list, and the number of values of each item (``PLAIN``: a single value)."""
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
    """Return the values for which ``picked`` has a 1. ``counts``: the expected number of values of each item, or
    ``PLAIN``; None: all are ``PLAIN``. A broken item is repeated for each of its values."""
    flat: list[Any] = []
    for value, count in zip(items, counts or (PLAIN,) * len(items), strict=True):
        flat += value if type(value) is Outputs else [value] * abs(count)  # PLAIN: one
    assert len(flat) == len(picked), f"items with {len(picked)} values came with {len(flat)}"
    return list(compress(flat, picked))


def gathered(flat: Iterable[Any], counts: Iterable[int]) -> list[Any]:
    """Return the items from a flat list of values and their counts: the inverse of ``spread``."""
    rest = iter(flat)
    return [next(rest) if count == PLAIN else Outputs(islice(rest, count)) for count in counts]


def unnested(items: Sequence[Any]) -> list[Any]:
    """Return items in which nested ``Outputs`` are flattened."""
    if not any_outputs(chain.from_iterable(item for item in items if type(item) is Outputs)):
        return list(items)
    return [_unnested(item) if type(item) is Outputs else item for item in items]


def owners(counts: Iterable[int]) -> list[int]:
    """Return the position of its item for each value of the flat list."""
    return list(chain.from_iterable([at] * abs(count) for at, count in enumerate(counts)))  # PLAIN: one


def _unnested(values: Outputs) -> Outputs:
    while any_outputs(values):
        values = Outputs(spread(values)[0])
    return values


def put_together(mosaic: Mosaic, decode: Callable[[Any], list[Any]]) -> list[Any]:
    """Return the items of a payload in parts, which ``decode`` decodes; an item with a broken value is broken."""
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


# Encode a large array, such as a video frame, by its type and shape: a pickle of the array names a function and a
# class, which costs ten times as much to write and to read at every hop.

_NUMBERS = "biufc"


def is_lone_array(value: object) -> TypeGuard[NDArray[Any]]:
    """Return whether the value is an array that ``described`` and its bytes describe completely."""
    return (
        type(value) is np.ndarray
        and value.nbytes >= LARGE_BYTES
        and value.flags.c_contiguous
        and value.dtype.isbuiltin == 1
        and value.dtype.kind in _NUMBERS
    )


def described(array: NDArray[Any]) -> dict[str, Any]:
    """Return the description of an array that ``array_of`` needs."""
    return {"dtype": array.dtype.str, "shape": array.shape}


def array_of(description: Mapping[str, Any], frame: Any) -> NDArray[Any]:
    """Return the described array, which shares the memory of the frame. Raises: NumPy's error if they do not fit."""
    return np.ndarray(description["shape"], description["dtype"], frame)


Frame = bytes | bytearray | memoryview
Frames = Sequence[Frame]
Carried = Frame | Reference
"""A frame to send; a large one may travel as a reference to memory that both sides share (``runtime/arena/``)."""
KeepBuffer = Callable[[pickle.PickleBuffer], Any]


def pickled(values: Sequence[Any], keep: KeepBuffer | None = None) -> bytes:
    """Pickle values, in one of four forms: a list of plain values; a dict with the flat values and counts of items; a
    tuple of a pickle and its number of buffers for each value; for a single large array, its description for
    ``array_of``. ``keep`` gets the large buffers; without it they are in the pickle.

    Raises: the error of pickle for a value that cannot be pickled.
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
    """Return the values from ``start`` to before ``stop`` (None: to the end), with ``Broken`` for failed ones."""
    try:
        read = pickle.loads(pickle_, buffers=buffers)
        if type(read) is list:
            return read if start == 0 and (stop is None or stop >= len(read)) else read[start:stop]
        if isinstance(read, dict) and "shape" in read:
            return [array_of(read, buffers[0])][start:stop]
    except Exception:
        return [Broken(traceback.format_exc())]  # a single value: several that may fail have a pickle each
    if isinstance(read, dict):
        return gathered(read["values"], read["counts"])[start:stop]
    stop = len(read) if stop is None else stop
    left = iter(buffers[sum(count for _, count in read[:start]) :])
    return [_load(own, list(islice(left, count))) for own, count in read[start:stop]]


def _pickled_spread(values: Sequence[Any]) -> bytes | None:
    """Return one pickle of the flat values and their counts; None if a value is not plain data."""
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
    """A value is not plain data."""


class _PlainPickler(pickle.Pickler):
    """Raises at the first object that is no number, string, list, dict or similar."""

    def reducer_override(self, obj: object) -> NoReturn:
        raise _NotPlainError


class FrameCodec:
    """Encodes values as frames, for workers in other processes; a frame store (``shelf``) holds large frames."""

    def __init__(self, shelf: Shelf | None = None) -> None:
        """``shelf``: None copies frames, as a source may reuse its buffer while its items wait."""
        self._shelf = shelf or Copies()

    def encode(self, values: Sequence[Any]) -> list[Carried]:
        """Return a pickle (protocol 5) as first frame, then the large buffers out of band, so that the transport need
        not read or copy them.

        Raises: the error of pickle for a value that cannot be pickled.
        """
        buffers: list[pickle.PickleBuffer] = []
        first = pickled(values, buffers.append)
        if not buffers and len(first) < LARGE_BYTES:  # a small pickle needs no frame store
            return [first]
        return self._shelf.keep([first, *(buffer.raw() for buffer in buffers)])

    def size_bytes(self, payload: Sequence[Carried] | Mosaic) -> int:
        if len(payload) == 1:
            return len(payload[0])
        return sum(map(self.size_bytes, payload.parts)) if isinstance(payload, Mosaic) else sum(map(len, payload))

    def decode(self, payload: Sequence[Carried] | Mosaic, start: int = 0, stop: int | None = None) -> list[Any]:
        """Return the values. Large arrays share the memory of their frame; ``Broken`` replaces a failed value."""
        if len(payload) == 1 and type(frame := payload[0]) is bytes:  # the usual case, without a reference to open
            return unpickled(frame, (), start, stop)
        if isinstance(payload, Mosaic):
            return put_together(payload, self.decode)[start:stop]
        first, *buffers = self._shelf.open(payload)
        return unpickled(first, buffers, start, stop)
