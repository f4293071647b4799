"""Four trivial stages over numbers: the least that a stream can be. For :mod:`lab.benchmarks.light_streams`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

from pydantic import Field

from apps.contract import App, Options
from compositions.model import Stage


class LightOptions(Options):
    """Options of :class:`Light`."""

    loops: int = Field(default=0, ge=0)
    """Loops of extra work in the second stage."""


class Light(App):
    """Adds one, four times."""

    name = "light"
    stages = (Stage("s1"), Stage("s2"), Stage("s3"), Stage("s4"))
    options_model = LightOptions
    options: LightOptions

    def items(self, path: Path | None) -> Iterator[int]:
        """Numbers without an end."""
        return count()

    def s1(self, value: int) -> int:
        return value + 1

    def s2(self, value: int) -> int:
        if self.options.loops:  # as the peers ask
            for _ in range(self.options.loops):
                pass
        return value + 1

    s3 = s4 = s1
