"""Values of the last stage as plain JSON data, and the buffer of the latest results, in batches of items."""

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
"""A number as Python keeps it, and its place in a list."""
JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
_CHUNKS = c_make_encoder and c_make_encoder(None, None, encode_basestring, None, ": ", ", ", False, False, False)


def text_of(plain: Any) -> str:
    """Return JSON text of plain data in half of the time of ``JSON``: the encoder in C is made once."""
    return JSON(plain) if _CHUNKS is None else "".join(_CHUNKS(plain, 0))


@dataclass(slots=True)
class Formed:
    """JSON data in the places of the values; ``faults``: why there is none, by place."""

    values: list[Any]
    faults: dict[int, str] = field(default_factory=dict)
    size_bytes: int = 0
    """About what they weigh: the length of their text, of numbers the memory that they take."""
    several: bool = False
    """Whether there are ``Outputs`` among them."""
    texts: list[str] | None = None
    """Of each place, where they are wanted and all that is there is JSON data; of what was refused it means nothing."""

    def refuse(self, place: int, error: Exception | str) -> None:
        """The first reason counts."""
        what = f"{type(error).__name__}: {error}" if not isinstance(error, RecomposeError | str) else str(error)
        self.values[place] = None
        self.faults.setdefault(place, f"the result cannot be written: {what}")


class JsonForm:
    """Convert results to JSON data. ``in_texts``: with their texts. ``objects``: a program reads them; any will do."""

    def __init__(self, app: App, in_texts: bool = False, objects: bool = False) -> None:
        self._app, self._in_texts, self._objects = app, in_texts, objects
        self._as_it_is = type(app).encode_result is App.encode_result and app.result_type is None

    def of(self, values: Sequence[Any]) -> Formed:
        """Convert all values at once if all are good, which is the rule: one by one costs ten times as much."""
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
            except Exception as error:  # the app's own code: whatever it raises concerns this item alone
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
    """Return whether JSON has each of them, seen in a fraction of the time that their text takes: if one is infinite or
    no number so is their sum, and what fits into a float has no more digits than Python makes text of."""
    if kinds == {float}:
        return isfinite(sum(values))
    try:
        numbers = array("d", values)
    except OverflowError:
        return False
    return float not in kinds or isfinite(sum(numbers))


def _plain_vectors(values: list[list[Any]]) -> int:
    """Return how many numbers there are in lists of numbers alone; 0 if there is anything else."""
    flat = list(chain.from_iterable(values))
    kinds = set(map(type, flat))
    return len(flat) if kinds <= NUMBERS and _plain_numbers(flat, kinds) else 0


def _texts(values: list[Any]) -> tuple[list[str], int] | None:
    """Return the JSON text of each and their length; None if they are no JSON data."""
    try:
        texts = list(map(text_of, values))
        return texts, len("".join(texts).encode())
    except (TypeError, ValueError, RecursionError):
        return None


def _text_bytes(values: list[Any]) -> int:
    """The length of their text; 0: they are no JSON data."""
    try:
        return len(JSON(values).encode())
    except (TypeError, ValueError, RecursionError):
        return 0


class ResultBatch:
    """Results with consecutive serial numbers: ``values``, one an item, or as many places with the same ``error``."""

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
        """``size_bytes``: about what they weigh. ``several``: as below, where it is known."""
        self.first, self.values, self.error, self.size_bytes = first, values, error, size_bytes
        # Looked for one by one: a journal of an earlier version has some that were never made by a call.
        self.several = Outputs in set(map(type, values)) if several is None else several
        self.texts = texts
        """The values as JSON, until they have been written to where results go."""
        rows = (len(value) if type(value) is Outputs else 1 for value in values)
        self._count = sum(rows) if self.several else len(values)

    def __len__(self) -> int:
        """Rows."""
        return self._count

    def results(self, start: int = 0, stop: int | None = None) -> Iterator[Result]:
        """The rows from ``start`` to before ``stop``."""
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
        """Yield one row per item, as tables take them: an item of several values, or of none, has ``values``."""
        for serial, value in enumerate(self.values, self.first):
            if self.error is not None:
                yield {"serial": serial, "error": self.error}
            else:
                yield {"serial": serial, "values" if type(value) is Outputs else "value": value}


class ResultBuffer(Sequence[Result]):
    """Retains the newest ``most`` rows unless they exceed ``most_bytes``; older ones go batch by batch."""

    def __init__(self, most: int, most_bytes: int = 2**60) -> None:
        self._most, self.most_bytes = most, most_bytes
        self._runs: deque[ResultBatch] = deque()
        self._count = self.size_bytes = 0
        self.since = self.until = 0
        """All rows of items from this serial number on are here, to before that one."""

    def begin(self, serial: int) -> None:
        """Begin at ``serial``: earlier results went long ago."""
        self.since = self.until = serial

    def add(self, run: ResultBatch) -> None:
        self.until = run.first + len(run.values)
        if not run:  # none of its items gave anything
            return
        self._runs.append(run)
        self._count += len(run)
        self.size_bytes += run.size_bytes
        while self._count - len(self._runs[0]) >= self._most or (
            self.size_bytes > self.most_bytes and len(self._runs) > 1  # the newest stays, whatever it weighs
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
        """Return a row, or the list of those in a slice."""
        if isinstance(index, slice):
            start, stop, step = index.indices(self._count)
            return list(self._between(start, stop))[::step]
        wanted = index + self._count if index < 0 else index
        for found in self._between(wanted, wanted + 1):
            return found
        raise IndexError(f"result {index} of {self._count}")

    def _between(self, start: int, stop: int) -> Iterator[Result]:
        """Passes over what comes before without making anything of it."""
        begin = 0
        for run in self._runs:
            if begin >= stop:
                return
            if begin + len(run) > start:
                yield from run.results(max(0, start - begin), min(len(run), stop - begin))
            begin += len(run)
