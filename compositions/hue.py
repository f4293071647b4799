"""The colour of a composition: the same for the same name, on the page and in every report, without being stored."""

from __future__ import annotations

HUES = 16
_OFFSET, _PRIME = 0x811C9DC5, 0x01000193


def hue_of(name: str) -> int:
    """One of ``HUES``: numbers count through them, other names are hashed (FNV-1a over UTF-8)."""
    if name.isascii() and name.isdigit() and name[0] != "0" and len(name) <= 9:
        return (int(name) - 1) % HUES
    found = _OFFSET
    for byte in name.encode():
        found = (found ^ byte) * _PRIME % 2**32
    return (found ^ found >> 16) % HUES
