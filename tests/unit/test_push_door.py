"""What is pushed becomes an item: JSON by one method of the app, bytes and arrays by another."""

from typing import Any

import numpy as np

from apps.contract import App
from compositions.model import Stage
from datapipe.sources.push import Push
from service.runner.validation.durable import PushDoor


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
    assert door.put((7, b"7")) == ([0, 1], None)
    refusal = str(door.put((np.eye(2),))[1])
    assert refusal.startswith("pictures does not take this item: an array of shape (2, 2)")
    assert source.waiting == 2


class Generators(Pictures):
    def from_json(self, value: Any) -> Any:
        return {"n": (each for each in value)} if isinstance(value, list) else value


def test_an_item_that_cannot_be_pickled_does_not_get_past_the_door() -> None:
    source = Push(4, clock=lambda: 0.0)
    door = PushDoor(Generators(), source, "push")
    refusal = str(door.put(([1],))[1])
    assert refusal.startswith("pictures makes a dict of this item, which cannot be sent to a worker (")
    assert (door.put((1,)), source.waiting) == (([0], None), 1)
