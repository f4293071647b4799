"""An app of any shape, with stages of every kind in any order. Every value is a number."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import Field

from apps.contract import App, Options, Outputs
from compositions.model import Stage, StageKind

Kind = Literal["plain", "odd", "repeat", "halve", "joined", "pairs", "sum", "ranks", "tally", "tallies", "wait"]
KINDS: tuple[Kind, ...] = get_args(Kind)
KEYED: tuple[Kind, ...] = ("tally", "tallies")
STATEFUL: tuple[Kind, ...] = ("sum", "ranks", *KEYED)
PARTITIONS, KEYS = 5, 11
MAY_FAIL: tuple[Kind, ...] = ("halve", "joined")
"""Kinds that never follow a stage with state, as it depends on the composition whether that saw a failing item."""


def stages_of(kinds: tuple[Kind, ...]) -> tuple[Stage, ...]:
    """Return the stages; ``repeat_2`` is the third stage, of kind ``repeat``."""
    return tuple(_stage(kind, number) for number, kind in enumerate(kinds))


def _stage(kind: Kind, number: int) -> Stage:
    name, batch = f"{kind}_{number}", kind in ("halve", "joined", "pairs", "ranks", "tallies")
    if kind in KEYED:
        return Stage(name, StageKind.PARTITIONED, batch=batch, partitions=PARTITIONS)
    state = StageKind.STATEFUL if kind in STATEFUL else StageKind.STATELESS
    return Stage(name, state, batch=batch, concurrency=3 if kind == "wait" else 1)


class Shape(Options):
    """Options of :class:`Shaped`."""

    kinds: tuple[Kind, ...] = Field(default=("plain",), min_length=1)
    """Kinds of its stages, in order."""
    pause_s: float = Field(default=0.0, ge=0)
    """Pause of every 50th call of a stage that waits; later calls overtake it."""


class Shaped(App):
    name = "shaped"
    options_model = Shape
    options: Shape
    stages = (Stage("as_plain"),)

    def __init__(self, options: Shape) -> None:
        super().__init__(options)
        self.stages = stages_of(options.kinds)

    def __getattr__(self, name: str) -> Any:
        kind, _, number = name.partition("_")
        if kind not in KINDS or not number:
            raise AttributeError(name)
        if number.endswith("_key"):
            return self.key
        return getattr(type(self), f"as_{kind}").__get__(self)

    def items(self, path: Path | None) -> Iterator[int]:
        """Yield numbers without an end."""
        return count()

    def as_plain(self, value: int) -> int:
        return value * 3 + 1

    def as_odd(self, value: int) -> Any:
        return value if value % 2 else Outputs()

    def as_repeat(self, value: int) -> Iterator[int]:
        for each in range(value % 4):
            yield value + each

    def as_halve(self, values: list[int]) -> list[Any]:
        if any(value % 100 == 13 for value in values):
            raise ValueError("unlucky")
        return [Outputs([value // 2, value % 2]) if value % 3 else value for value in values]

    def as_joined(self, values: list[int]) -> list[int]:
        return [value + 7 for value in values if value % 50 != 11]  # the stage then returns too few

    def as_pairs(self, values: list[int]) -> list[Any]:
        return [Outputs([value, value + 2]) if value % 4 == 1 else value for value in values]

    def as_sum(self, value: int, state: int | None) -> tuple[Any, int]:
        state = (state or 0) + value
        return (Outputs([value, state % 1000]) if value % 5 == 0 else state % 1000), state

    def as_ranks(self, values: list[int], state: int | None) -> tuple[list[int], int]:
        state = state or 0
        return [value * 10 + (state + place) % 10 for place, value in enumerate(values)], state + len(values)

    def key(self, value: int) -> int:
        """Return the key of a value, for each stage with keyed state."""
        return value % KEYS

    def as_tally(self, value: int, state: int | None) -> tuple[Any, int | None]:
        state = (state or 0) + 1
        result = Outputs() if value % 6 == 3 else value * 3 + state % 5
        return result, None if state == 7 else state

    def as_tallies(self, values: list[int], states: dict[int, int | None]) -> tuple[list[Any], dict[int, int | None]]:
        results: list[Any] = []
        for value in values:
            state = states[self.key(value)] = (states[self.key(value)] or 0) + value % 3
            results.append(Outputs([value, state]) if value % 8 == 1 else value + state)
        return results, states

    async def as_wait(self, value: int) -> Any:
        await asyncio.sleep(0 if value % 50 else self.options.pause_s)
        return Outputs([value]) if value % 7 == 0 else value - 1
