"""The app of what is read in the contracts of sources: numbers, and a sentence for everything else."""

import json
import time
from collections.abc import Sequence
from typing import Any

from servers import Place

from apps.contract import App
from compositions.model import Stage
from datapipe.source_kinds import open_source


class Numbers(App):
    name = "numbers"
    stages = (Stage("same"),)

    def from_json(self, value: Any) -> Any:
        if isinstance(value, dict):
            value = value["n"]
        if not isinstance(value, int):
            raise ValueError("give a number")
        return value

    def same(self, value: int) -> int:
        return value


def source_of(place: Place) -> Any:
    return open_source(Numbers(), place.kind, place.path, clock=time.monotonic, options=place.options)


def bodies(numbers: Sequence[int]) -> list[bytes]:
    return [json.dumps(number).encode() for number in numbers]
