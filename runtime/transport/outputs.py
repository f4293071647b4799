"""Items of which a stage made several values, or none: spread their values side by side, and gather them by item
again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, compress, islice
from typing import Any

from apps.contract import Outputs
from runtime.dispatch.keys import PLAIN, Mosaic


@dataclass(frozen=True, slots=True)
class Broken:
    """``why`` is the traceback."""

    why: str


def any_outputs(values: Iterable[Any]) -> bool:
    """Some 15 ns an item where this process has ever had any, else nothing."""
    return Outputs.made and Outputs in set(map(type, values))


def spread(values: Iterable[Any]) -> tuple[list[Any], list[int]]:
    """All values of all items in one list, and how many each item has, or ``PLAIN``."""
    flat: list[Any] = []
    counts: list[int] = []
    for value in values:
        if type(value) is Outputs:
            flat += value
            counts.append(len(value))
        else:
            flat.append(value)
            counts.append(PLAIN)
    return flat, counts


def picked_of(items: Sequence[Any], picked: bytes, counts: Sequence[int] | None) -> list[Any]:
    """Return the values of all items for which ``picked`` has a 1. ``counts``: how many each item was said to have, or
    ``PLAIN``, None if all are; an item that is broken now stands for each of its values."""
    flat: list[Any] = []
    for value, count in zip(items, counts or (PLAIN,) * len(items), strict=True):
        flat += value if type(value) is Outputs else [value] * abs(count)  # PLAIN: one
    assert len(flat) == len(picked), f"items with {len(picked)} values came with {len(flat)}"
    return list(compress(flat, picked))


def gathered(flat: Iterable[Any], counts: Iterable[int]) -> list[Any]:
    """Inverse of ``spread``."""
    rest = iter(flat)
    return [next(rest) if count == PLAIN else Outputs(islice(rest, count)) for count in counts]


def unnested(items: Sequence[Any]) -> list[Any]:
    """Outputs among the values of an item are values of the item."""
    if not any_outputs(chain.from_iterable(item for item in items if type(item) is Outputs)):
        return list(items)
    return [_unnested(item) if type(item) is Outputs else item for item in items]


def owners(counts: Iterable[int]) -> list[int]:
    """For each value of the flat list the position of its item."""
    return list(chain.from_iterable([at] * abs(count) for at, count in enumerate(counts)))  # PLAIN: one


def _unnested(values: Outputs) -> Outputs:
    while any_outputs(values):
        values = Outputs(spread(values)[0])
    return values


def put_together(mosaic: Mosaic, decode: Callable[[Any], list[Any]]) -> list[Any]:
    """The items of a payload in parts, each of which ``decode`` makes values of; one with a broken value is broken."""
    flat = mosaic.in_order([decode(part) for part in mosaic.parts])
    if mosaic.counts is None:
        return flat
    items = gathered(flat, mosaic.counts)
    if Broken in set(map(type, flat)):
        items = [_broken_in(item) or item for item in items]
    return unnested(items)


def _broken_in(item: Any) -> Broken | None:
    values = item if type(item) is Outputs else ()
    return next((each for each in values if type(each) is Broken), None)
