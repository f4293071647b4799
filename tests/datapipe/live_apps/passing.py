"""An app of three stages that passes rows on, and refuses some."""

from __future__ import annotations

from typing import Any

from apps.contract import App
from compositions.model import Stage


class Passing(App):
    name = "passing"
    stages = (Stage("parse"), Stage("square"), Stage("label"))

    def from_json(self, value: Any) -> Any:
        if value["n"] < 0:
            raise ValueError("n is negative")
        return value

    def parse(self, row: dict[str, Any]) -> dict[str, Any]:
        return {**row, "n": int(row["n"])}

    def square(self, row: dict[str, Any]) -> dict[str, Any]:
        return {**row, "square": row["n"] ** 2}

    def label(self, row: dict[str, Any]) -> dict[str, Any]:
        return {**row, "label": f"{row['file']}:{row['line']}"}
