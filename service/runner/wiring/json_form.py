"""Values of the last stage as plain JSON data, a bundle at a time; an unwritable value fails its item alone."""

from __future__ import annotations

import json
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from json.encoder import c_make_encoder, encode_basestring  # type: ignore[attr-defined]  # None where there is no C
from math import isfinite
from typing import Any

from apps.contract import App, Outputs
from compositions.errors import RecomposeError
from runtime.transport.values import Broken

NUMBERS = frozenset({bool, int, float})
NUMBER_BYTES = 40
"""A number as Python keeps it, and its place in a list."""
JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
_CHUNKS = c_make_encoder and c_make_encoder(None, None, encode_basestring, None, ": ", ", ", False, False, False)


def text_of(plain: Any) -> str:
    """Return the JSON text of plain data in half of the time of ``JSON``: the encoder in C is made once, and not for
    every value."""
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
    """Converts the results of one app to JSON data. ``in_texts``: with the text of each."""

    def __init__(self, app: App, in_texts: bool = False) -> None:
        self._app, self._in_texts = app, in_texts
        self._as_it_is = type(app).encode_result is App.encode_result

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
        formed.size_bytes = _text_bytes(formed.values)
        if not formed.size_bytes:
            self._look_at_each(formed)
            formed.size_bytes = _text_bytes(formed.values)
        return formed

    def _encode(self, formed: Formed) -> None:
        encode = self._app.encode_result
        for place, value in enumerate(formed.values):
            if isinstance(value, Broken):
                continue
            try:
                formed.values[place] = Outputs(map(encode, value)) if type(value) is Outputs else encode(value)
            except Exception as error:  # the app's own code: whatever it raises concerns this item alone
                formed.refuse(place, error)

    def _look_at_each(self, formed: Formed) -> None:
        for place, value in enumerate(formed.values):
            if isinstance(value, Broken):
                formed.refuse(place, value.why)
                continue
            try:
                JSON(value).encode()
            except (TypeError, ValueError, RecursionError) as error:
                cure = f"let encode_result of app {self._app.name!r} return plain JSON data"
                formed.refuse(place, f"{type(error).__name__}: {error}; {cure}")


def _plain_numbers(values: list[Any], kinds: set[type]) -> bool:
    """Return whether JSON has each of them, seen in a third of the time that their text takes: if one is infinite or
    no number so is their sum, and what fits into a float has no more digits than Python makes text of."""
    try:
        numbers = array("d", values)
    except OverflowError:
        return False
    return float not in kinds or isfinite(sum(numbers))


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
