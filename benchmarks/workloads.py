"""What is measured: an app of empty stages, and the same work for the peers."""

from __future__ import annotations

import time
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from apps.contract import App
from apps.synthetic import Synthetic
from apps.synthetic.busy import burn, rest
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
    """What an item costs in each stage, seconds; ``waits``: of sleep, else of CPU time."""

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
