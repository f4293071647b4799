"""Format numbers and names for sentences, as people write them, and addresses without their secrets."""

import math
import re
from collections.abc import Iterable
from decimal import Decimal
from difflib import get_close_matches

USER = re.compile(r"""(?<=://)(?:[^\s"<>/?#@]{0,256}|[^\s"<>@/?#:]{0,128}:(?!\d{1,5}[/?#])[^\s"<>@]{0,256})@""")
"""User and password in an address. A password may contain a slash; an ``@`` after a port, in a path or in a query
belongs to neither."""
SECRET = re.compile(r"""(?i)((?:password|passwd|pwd|secret|token)=)[^\s'"<>&;,]+""")
GROUPED_FROM = 10_000
"""Thousands are set apart from five digits on."""


def figure(value: float, digits: int = 3) -> str:
    """So many significant digits and no exponent: ``12,500``, ``9.08``, ``0.0000123``."""
    text = f"{value:.{digits}g}"
    if "e" not in text and (abs(value) < GROUPED_FROM or not math.isfinite(value)):
        return text
    rounded = Decimal(text)
    return f"{rounded:,f}" if abs(rounded) >= GROUPED_FROM else f"{rounded:f}"


def apart(one: float, other: float, digits: int = 4) -> tuple[str, str]:
    """Return both numbers with enough digits to tell them apart, if the values differ."""
    while digits < 15 and one != other and figure(one, digits) == figure(other, digits):
        digits += 1
    return figure(one, digits), figure(other, digits)


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return `` (did you mean 'resize'?)`` if a known name is close to ``name``, else nothing."""
    close = get_close_matches(name, list(known), n=1) if isinstance(name, str) else []
    return f" (did you mean {close[0]!r}?)" if close else ""


def without_user(url: str) -> str:
    """Return an address for a message, without the user and password that it may contain."""
    scheme, slashes, rest = url.partition("//")
    return scheme + slashes + rest.rpartition("@")[2]


def without_users(text: str) -> str:
    """Return a text from elsewhere with its addresses as by ``without_user``, and without secret parameters."""
    if "://" not in text and "=" not in text:
        return text
    return SECRET.sub(r"\1…", USER.sub("", text))
