"""Positions in a bundle that is taken apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def between(count: int, alone: Iterable[int]) -> Iterator[tuple[int, int]]:
    """``count`` positions cut, in order, so that each of ``alone`` stands by itself."""
    begin = 0
    for position in (*alone, count):
        if begin < position:
            yield begin, position
        if position < count:
            yield position, position + 1
        begin = position + 1
