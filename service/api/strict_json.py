"""JSON as RFC 8259 and I-JSON define it: what Python's parser accepts beyond them is refused with a sentence.

The time to accept or refuse a text grows linearly with its length.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

MAX_DEPTH = 64


class JsonRefusedError(ValueError):
    """The text is not acceptable JSON."""


def parse(text: bytes) -> Any:
    """Return the value of the JSON ``text``.

    Raises: JsonRefusedError for bad syntax or UTF-8, NaN, infinities, numbers that overflow, repeated keys, lone
    surrogates, nesting beyond ``MAX_DEPTH``.
    """
    try:
        decoded = text.decode("utf-8")
        value = _DECODER.decode(decoded)
    except UnicodeDecodeError as error:
        raise JsonRefusedError(f"the body is not UTF-8 (byte {error.start})") from error
    except json.JSONDecodeError as error:
        raise JsonRefusedError(
            f"the body is not JSON: {error.msg} at line {error.lineno} column {error.colno}"
        ) from error
    except RecursionError as error:
        raise JsonRefusedError(_too_deep()) from error
    except JsonRefusedError:
        raise
    except ValueError as error:  # integers of thousands of digits
        raise JsonRefusedError(f"the body has a number that cannot be read: {error}") from error
    if "\\u" in decoded or decoded.count("[") + decoded.count("{") > MAX_DEPTH:
        _check_values(value)  # only then can there be a lone surrogate, or too many levels
    return value


def _constant(name: str) -> Any:
    raise JsonRefusedError(f"{name} is not JSON; give a finite number or null")


def _float(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise JsonRefusedError(f"{text[:40]} is too large a number; give at most 1.7e308")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        seen: set[str] = set()
        repeated = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise JsonRefusedError(f"the key {repeated[:40]!r} is given twice")
    return result


_DECODER = json.JSONDecoder(parse_constant=_constant, parse_float=_float, object_pairs_hook=_object)
"""One decoder for all texts: creating one costs more than reading a line with it."""


def _check_values(value: Any) -> None:
    """Level by level, without recursion."""
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH + 1:
            raise JsonRefusedError(_too_deep())
        for each in level:
            if isinstance(each, str) and not _encodable(each):
                raise JsonRefusedError(f"the text {each[:40]!r} holds a lone surrogate; give complete characters")
        level = [child for each in level for child in _children(each)]


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    return value if isinstance(value, list) else ()


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _too_deep() -> str:
    return f"the body is nested deeper than {MAX_DEPTH} levels"
