"""Workloads of the benchmarks: apps of empty stages, and of stages that take what an item says."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np

from apps.contract import App
from apps.synthetic.app import burn, rest
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


class Price(NamedTuple):
    """The cost of an item in each stage, in seconds; ``waits``: of sleep, else of CPU time."""

    costs_s: tuple[float, ...]
    waits: bool


class Priced(App):
    """Four stages, each of which takes what its item says."""

    name = "priced"
    stages = tuple(Stage(name) for name in "abcd")

    def a(self, price: Price) -> Price:
        return self._take(price, 0)

    def b(self, price: Price) -> Price:
        return self._take(price, 1)

    def c(self, price: Price) -> Price:
        return self._take(price, 2)

    def d(self, price: Price) -> Price:
        return self._take(price, 3)

    def _take(self, price: Price, stage: int) -> Price:
        if price.waits:
            rest(price.costs_s[stage], time.perf_counter())
        else:
            burn(price.costs_s[stage], time.thread_time())
        return price
