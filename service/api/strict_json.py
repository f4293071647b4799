"""Parse JSON strictly and in linear time: RFC 8259, without texts that different parsers read differently."""

import json
from collections.abc import Iterable
from typing import Any

MAX_DEPTH = 64
MAX_DIGITS = 1_000
MAX_COMMAS = 25_000
"""Maximum number of commas in a body without items: many values are refused one by one while other requests wait."""


class JsonRefusedError(ValueError):
    """The text is not acceptable JSON."""


def parse_json(text: bytes, decoder: json.JSONDecoder | None = None) -> Any:
    """Return the value of a JSON text (RFC 8259, I-JSON), in a time linear in its length. Raises: JsonRefusedError for
    bad syntax or UTF-8, NaN, infinities, numbers that overflow, repeated keys, lone surrogates, or nesting beyond
    ``MAX_DEPTH``."""
    try:
        decoded = text.decode("utf-8")
        value = (decoder or _DECODER).decode(decoded)
    except UnicodeDecodeError as error:
        raise JsonRefusedError(f"the body is not UTF-8 (byte {error.start})") from error
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise JsonRefusedError(f"the body is not JSON: {error.msg} at {where}") from error
    except RecursionError as error:
        raise JsonRefusedError(_too_deep()) from error
    except JsonRefusedError:
        raise
    except ValueError as error:  # an integer of thousands of digits
        raise JsonRefusedError(f"the body has a number that cannot be read: {error}") from error
    if "\\u" in decoded or decoded.count("[") + decoded.count("{") > MAX_DEPTH:
        _check_values(value)  # only such texts can have a lone surrogate, or too many levels
    return value


def _constant(name: str) -> Any:
    raise JsonRefusedError(f"{name} is not JSON; give a finite number or null")


def _float(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise JsonRefusedError(f"{text[:40]} is too large a number; give at most 1.7e308")
    return value


def _short_int(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ValueError(f"it has {len(text):,} digits; at most {MAX_DIGITS:,}")
    return int(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        seen: set[str] = set()
        repeated = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise JsonRefusedError(f"the key {repeated[:40]!r} is given twice")
    return result


_STRICT: dict[str, Any] = {"parse_constant": _constant, "parse_float": _float, "object_pairs_hook": _object}
_DECODER = json.JSONDecoder(**_STRICT)
"""One decoder for all texts, because creating a decoder takes longer than reading a line with it."""
_WITHOUT_ITEMS = json.JSONDecoder(**_STRICT, parse_int=_short_int)
"""Decoder for bodies without items; it refuses long integers, as reading one takes time quadratic in its length."""


def _check_values(value: Any) -> None:
    """Check the values level by level, without recursion."""
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH + 1:
            raise JsonRefusedError(_too_deep())
        for each in (each for each in level if isinstance(each, str)):
            try:
                each.encode()
            except UnicodeEncodeError as error:
                what = f"the text {each[:40]!r} holds a lone surrogate; give complete characters"
                raise JsonRefusedError(what) from error
        level = [child for each in level for child in _children(each)]


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    return value if isinstance(value, list) else ()


def _too_deep() -> str:
    return f"the body is nested deeper than {MAX_DEPTH} levels"


def parse_without_items(body: bytes) -> Any:
    """Parse a body without items. Raises: JsonRefusedError as ``parse_json``, or for too many commas or digits."""
    if (commas := body.count(b",")) > MAX_COMMAS:
        raise JsonRefusedError(f"the body lists too many values: it has {commas:,} commas; at most {MAX_COMMAS:,}")
    return parse_json(body, _WITHOUT_ITEMS)
