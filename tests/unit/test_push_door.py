"""What is pushed becomes an item: JSON by one method of the app, bytes and arrays by another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from apps.contract import App
from apps.input.push import Push
from compositions.errors import RecomposeError
from compositions.model import Stage
from service.running.checking.pushes import PushDoor


class Pictures(App):
    name = "pictures"
    stages = (Stage("look"),)

    def from_json(self, value: Any) -> Any:
        return ("json", value)

    def from_binary(self, value: Any) -> Any:
        if isinstance(value, bytes):
            return ("bytes", value)
        raise ValueError(f"an array of shape {value.shape} is no picture")


def test_each_kind_has_its_method() -> None:
    source = Push(4, clock=lambda: 0.0)
    door = PushDoor(Pictures(), source, "push")
    assert [door.put(7), door.put(b"7")] == [0, 1]
    with pytest.raises(RecomposeError, match=r"pictures does not take this item: an array of shape \(2, 2\)"):
        door.put(np.eye(2))
    assert source.waiting == 2
