"""The app of what is read in the contracts of sources: numbers, and a sentence for everything else."""

from typing import Any

from apps.contract import App
from compositions.model import Stage


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
