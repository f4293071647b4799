"""App of the chaos benchmark: sums by key, which show a lost, duplicated or misplaced item."""

from __future__ import annotations

import time
from typing import Any

from apps.contract import App
from compositions.model import Stage, StageKind

WORK_S = 0.002


class Tally(App):
    name = "tally"
    description = "Adds numbers up by key."
    stages = (Stage("work"), Stage("add", StageKind.STATEFUL), Stage("pass_on"))

    def from_json(self, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict) or not isinstance(value.get("n"), int):
            raise ValueError(f"{value!r} is no item of app 'tally'; give an object with a number n")
        return value

    def work(self, value: dict[str, Any]) -> dict[str, Any]:
        time.sleep(WORK_S)
        return value

    def add(self, value: dict[str, Any], state: dict[str, int] | None) -> tuple[dict[str, Any], dict[str, int]]:
        sums = dict(state or {})
        sums[value["key"]] = sums.get(value["key"], 0) + value["n"]
        return {**value, "total": sums[value["key"]]}, sums

    def pass_on(self, value: dict[str, Any]) -> dict[str, Any]:
        return value
