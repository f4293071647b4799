"""A source of what a program gives: a list, a generator, whatever can be iterated over."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import Any

from apps.input.portions import Portion, Portions
from apps.input.sources import Arrival, Clock, one_by_one


class GivenItems:
    """Its items once through, as it makes them. An item arrives when its read begins."""

    def __init__(self, items: Iterable[Any], *, clock: Clock) -> None:
        self._portions = Portions(iter(items), clock)
        self._closed = threading.Event()

    def read(self, most: int, until_s: float) -> Portion | None:
        return None if self._closed.is_set() else self._portions.next(most, until_s)

    def at_hand(self, until_s: float) -> bool:
        return True

    def __iter__(self) -> Iterator[Arrival]:
        return one_by_one(self)

    def close(self) -> None:
        self._closed.set()
