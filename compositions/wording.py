"""Format numbers and names for sentences, and remove secrets from addresses."""

import math
import re
from collections.abc import Iterable
from decimal import Decimal
from difflib import get_close_matches

USER = re.compile(r"""(?<=://)(?:[^\s"<>/?#@]{0,256}|[^\s"<>@/?#:]{0,128}:(?!\d{1,5}[/?#])[^\s"<>@]{0,256})@""")
"""Pattern of user and password in an address. A password may contain a slash; an ``@`` after a port, in a path or in a
query is no part of them."""
SECRET = re.compile(r"""(?i)((?:password|passwd|pwd|secret|token)=)[^\s'"<>&;,]+""")
GROUPED_FROM = 10_000
"""Smallest number that gets thousands separators."""


def figure(value: float, digits: int = 3) -> str:
    """Return the number with this many significant digits and no exponent: ``12,500``, ``9.08``, ``0.0000123``."""
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
    """Return a text without users and passwords in its addresses, and without the values of secret parameters."""
    if "://" not in text and "=" not in text:
        return text
    return SECRET.sub(r"\1…", USER.sub("", text))
