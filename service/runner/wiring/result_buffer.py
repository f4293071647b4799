"""Convert values of the last stage to plain JSON data, and buffer the latest results in batches of items."""

import json
from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from json.encoder import c_make_encoder, encode_basestring  # type: ignore[attr-defined]  # None where there is no C
from math import isfinite
from sys import getsizeof
from typing import Any

from apps.contract import App, Outputs
from apps.expectations import fitted
from compositions.errors import RecomposeError
from runtime.transport.values import Broken
from service.schemas.results import Result

NUMBERS = frozenset({bool, int, float})
NUMBER_BYTES = 40
"""Bytes of a number in Python, with its place in a list."""
JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
_CHUNKS = c_make_encoder and c_make_encoder(None, None, encode_basestring, None, ": ", ", ", False, False, False)


def text_of(plain: Any) -> str:
    """Return JSON text of plain data, twice as fast as ``JSON``, because the C encoder is created only once."""
    return JSON(plain) if _CHUNKS is None else "".join(_CHUNKS(plain, 0))


@dataclass(slots=True)
class Formed:
    """JSON data at the places of the values; ``faults``: reasons by place where there is none."""

    values: list[Any]
    faults: dict[int, str] = field(default_factory=dict)
    size_bytes: int = 0
    """Approximate size in bytes: the length of the text; for numbers, the memory that they take."""
    several: bool = False
    """True if ``Outputs`` are among the values."""
    texts: list[str] | None = None
    """Text of each place, if texts are wanted and all values are JSON data; undefined for refused values."""

    def refuse(self, place: int, error: Exception | str) -> None:
        """Record a refusal; the first reason counts."""
        what = f"{type(error).__name__}: {error}" if not isinstance(error, RecomposeError | str) else str(error)
        self.values[place] = None
        self.faults.setdefault(place, f"the result cannot be written: {what}")


class JsonForm:
    """Convert results to JSON data. ``in_texts``: also make texts. ``objects``: a program reads the results."""

    def __init__(self, app: App, in_texts: bool = False, objects: bool = False) -> None:
        self._app, self._in_texts, self._objects = app, in_texts, objects
        self._as_it_is = type(app).encode_result is App.encode_result and app.result_type is None

    def of(self, values: Sequence[Any]) -> Formed:
        """Convert all values at once if all are valid, which is the usual case; one by one takes ten times as long."""
        formed = Formed(list(values))
        if not self._as_it_is:
            self._encode(formed)
        kinds = set(map(type, formed.values))
        formed.several = Outputs in kinds
        if self._in_texts and not formed.several and (texts := _texts(formed.values)):
            formed.texts, formed.size_bytes = texts
            return formed
        if kinds <= NUMBERS and _plain_numbers(formed.values, kinds):
            formed.size_bytes = NUMBER_BYTES * len(formed.values)
            return formed
        if kinds == {list} and (numbers := _plain_vectors(formed.values)):
            formed.size_bytes = NUMBER_BYTES * numbers
            return formed
        formed.size_bytes = _text_bytes(formed.values)
        if not formed.size_bytes:
            self._look_at_each(formed)
            formed.size_bytes = _text_bytes(formed.values) or sum(map(getsizeof, formed.values))
        return formed

    def _encode(self, formed: Formed) -> None:
        encode = self._encoded
        for place, value in enumerate(formed.values):
            if isinstance(value, Broken):
                continue
            try:
                formed.values[place] = Outputs(map(encode, value)) if type(value) is Outputs else encode(value)
            except Exception as error:  # code of the app: any exception concerns this item only
                formed.refuse(place, error)

    def _encoded(self, value: Any) -> Any:
        plain = self._app.encode_result(value)
        if self._app.result_type is not None:
            fitted(self._app.result_type, plain)
        return plain

    def _look_at_each(self, formed: Formed) -> None:
        for place, value in enumerate(formed.values):
            if isinstance(value, Broken):
                formed.refuse(place, value.why)
            if isinstance(value, Broken) or self._objects:
                continue
            try:
                JSON(value).encode()
            except (TypeError, ValueError, RecursionError) as error:
                cure = f"let encode_result of app {self._app.name!r} return plain JSON data"
                formed.refuse(place, f"{type(error).__name__}: {error}; {cure}")


def _plain_numbers(values: list[Any], kinds: set[type]) -> bool:
    """Return whether JSON can represent each number, much faster than by making texts: if a value is infinite or not a
    number, so is the sum; and a number that fits into a float has no more digits than Python converts."""
    if kinds == {float}:
        return isfinite(sum(values))
    try:
        numbers = array("d", values)
    except OverflowError:
        return False
    return float not in kinds or isfinite(sum(numbers))


def _plain_vectors(values: list[list[Any]]) -> int:
    """Return the count of numbers in lists that contain only numbers; 0 if there is anything else."""
    flat = list(chain.from_iterable(values))
    kinds = set(map(type, flat))
    return len(flat) if kinds <= NUMBERS and _plain_numbers(flat, kinds) else 0


def _texts(values: list[Any]) -> tuple[list[str], int] | None:
    """Return the JSON text of each value and their total length; None if a value is not JSON data."""
    try:
        texts = list(map(text_of, values))
        return texts, len("".join(texts).encode())
    except (TypeError, ValueError, RecursionError):
        return None


def _text_bytes(values: list[Any]) -> int:
    """Return the length of their text; 0 if they are not JSON data."""
    try:
        return len(JSON(values).encode())
    except (TypeError, ValueError, RecursionError):
        return 0


class ResultBatch:
    """Results with consecutive serial numbers: ``values``, one per item, or as many places with the same ``error``."""

    __slots__ = ("_count", "error", "first", "several", "size_bytes", "texts", "values")

    def __init__(
        self,
        first: int,
        values: Sequence[Any],
        error: str | None = None,
        size_bytes: int = 0,
        several: bool | None = None,
        texts: Sequence[str] | None = None,
    ) -> None:
        """``size_bytes``: approximate size. ``several``: see the attribute, if it is known."""
        self.first, self.values, self.error, self.size_bytes = first, values, error, size_bytes
        # Determined one by one: a journal of an earlier version may contain some that no call has made.
        self.several = Outputs in set(map(type, values)) if several is None else several
        self.texts = texts
        """The values as JSON text, until they are written to their destination."""
        rows = (len(value) if type(value) is Outputs else 1 for value in values)
        self._count = sum(rows) if self.several else len(values)

    def __len__(self) -> int:
        """Return the number of rows."""
        return self._count

    def results(self, start: int = 0, stop: int | None = None) -> Iterator[Result]:
        """Return the rows from ``start`` up to, not including, ``stop``."""
        if self.several:
            return (Result(**row) for row in islice(self.rows(), start, stop))
        serials = range(self.first, self.first + len(self.values))[start:stop]
        if self.error is not None:
            return (Result(serial=serial, error=self.error) for serial in serials)
        pairs = zip(serials, self.values[start:stop], strict=True)
        return (Result(serial=serial, value=value) for serial, value in pairs)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rows of a file of results."""
        for serial, value in enumerate(self.values, self.first):
            if self.error is not None:
                yield {"serial": serial, "error": self.error}
            elif self.several and type(value) is Outputs:
                yield from ({"serial": serial, "part": part, "value": each} for part, each in enumerate(value))
            else:
                yield {"serial": serial, "value": value}

    def items(self) -> Iterator[dict[str, Any]]:
        """Yield one row per item for a table: an item with several values, or none, has ``values``."""
        for serial, value in enumerate(self.values, self.first):
            if self.error is not None:
                yield {"serial": serial, "error": self.error}
            else:
                yield {"serial": serial, "values" if type(value) is Outputs else "value": value}


class ResultBuffer(Sequence[Result]):
    """Retains the newest ``most`` rows, if they take at most ``most_bytes``; older ones are dropped batch by batch."""

    def __init__(self, most: int, most_bytes: int = 2**60) -> None:
        self._most, self.most_bytes = most, most_bytes
        self._runs: deque[ResultBatch] = deque()
        self._count = self.size_bytes = 0
        self.since = self.until = 0
        """The buffer contains all rows of items from ``since`` up to, not including, ``until``."""

    def begin(self, serial: int) -> None:
        """Begin at ``serial``, as earlier results were dropped long ago."""
        self.since = self.until = serial

    def add(self, run: ResultBatch) -> None:
        self.until = run.first + len(run.values)
        if not run:  # none of its items gave a value
            return
        self._runs.append(run)
        self._count += len(run)
        self.size_bytes += run.size_bytes
        while self._count - len(self._runs[0]) >= self._most or (
            self.size_bytes > self.most_bytes and len(self._runs) > 1  # the newest batch stays, whatever its size
        ):
            oldest = self._runs.popleft()
            self._count -= len(oldest)
            self.size_bytes -= oldest.size_bytes
            self.since = oldest.first + len(oldest.values)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Result]:
        for run in self._runs:
            yield from run.results()

    def __getitem__(self, index: int | slice) -> Any:
        """Return a row, or the list of the rows in a slice."""
        if isinstance(index, slice):
            start, stop, step = index.indices(self._count)
            return list(self._between(start, stop))[::step]
        wanted = index + self._count if index < 0 else index
        for found in self._between(wanted, wanted + 1):
            return found
        raise IndexError(f"result {index} does not exist: the bundle has {self._count} results")

    def _between(self, start: int, stop: int) -> Iterator[Result]:
        """Skip the preceding rows without creating them."""
        begin = 0
        for run in self._runs:
            if begin >= stop:
                return
            if begin + len(run) > start:
                yield from run.results(max(0, start - begin), min(len(run), stop - begin))
            begin += len(run)
