"""Frames of 1 MB, one of which hangs its worker, once."""

import os
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from apps.contract import App, Options
from compositions.model import Stage

FRAME_BYTES = 1_000_000


class HangingOptions(Options):
    hang_from: int
    """The first item from this one on that gets to a worker hangs it."""
    told: Path
    """A file for the process that hangs and its item; where there is one, nobody hangs."""


class Hanging(App):
    name = "hanging"
    options_model = HangingOptions
    options: HangingOptions
    stages = (Stage("anew"), Stage("same"))

    def items(self, path: Path | None) -> Iterator[Any]:
        return ((number, np.full(FRAME_BYTES, number % 200, np.uint8)) for number in count())

    def anew(self, value: Any) -> Any:
        number, frame = value
        if number >= self.options.hang_from:
            self._hang(number)
        return number, frame + 1

    def _hang(self, number: int) -> None:
        """Nobody sees the file before all of it is there."""
        own = self.options.told.with_suffix(f".{os.getpid()}")
        own.write_text(f"{os.getpid()} {number}")
        try:
            os.link(own, self.options.told)
        except FileExistsError:
            return
        time.sleep(3600)

    def same(self, value: Any) -> Any:
        return value

    def encode_result(self, value: Any) -> list[int]:
        number, frame = value
        return [number, int(frame.min()), int(frame.max())]
