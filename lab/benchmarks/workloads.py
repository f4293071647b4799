"""The smallest workloads of the benchmarks: an app of empty stages, a small item and a frame."""

from __future__ import annotations

from typing import Any

import numpy as np

from apps.contract import App
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
