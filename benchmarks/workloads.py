"""What is measured: an app of empty stages, and the same work for the peers."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from apps.contract import App
from apps.synthetic import Synthetic
from compositions.model import Stage

SMALL = {"serial": 7, "name": "item"}
FRAME = np.zeros((260, 462, 3), np.uint8)
"""A video frame of 360 KB."""


class Empty(App):
    """Four stages that do nothing."""

    name = "empty"
    stages = tuple(Stage(name) for name in ("s1", "s2", "s3", "s4"))

    def s1(self, value: Any) -> Any:
        return value

    s2 = s3 = s4 = s1


def identity(value: Any) -> Any:
    """An empty stage as a function, for a process pool."""
    return value


@cache
def synthetic() -> Synthetic:
    """The app of a process of a process pool."""
    return Synthetic()


def all_of_synthetic(value: Any) -> Any:
    """The three functions one after the other."""
    app = synthetic()
    return app.f3(app.f2(app.f1(value)))
