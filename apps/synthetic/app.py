"""The synthetic app: stages f1, f2, … of known cost, whose result shows which stages an item has passed.

After Vogel et al., section 4: three functions, 24 ms in all, balanced 2:2:2 or unbalanced 1:3:2.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from apps.contract import App, Options
from apps.synthetic.options import Costs, SyntheticOptions, first_link, next_link
from compositions.errors import RecomposeError
from compositions.model import Stage

_STEPS = 100
"""Additions between two looks at the clock: some 5 µs, which bounds the overshoot; a look takes 0.7 µs."""


def burn(cpu_s: float, since_s: float) -> None:
    """Computes until this thread has had ``cpu_s`` of CPU time since ``since_s`` of ``time.thread_time``.

    CPU time, not wall time: an item costs the same when workers share a core.
    """
    until_s = since_s + cpu_s
    value = 1.0
    while time.thread_time() < until_s:
        for _ in range(_STEPS):
            value = value * 0.999 + 0.5


def rest(wall_s: float, since_s: float) -> None:
    """Sleeps until ``wall_s`` after ``since_s`` of ``time.perf_counter``."""
    left_s = since_s + wall_s - time.perf_counter()
    if left_s > 0:
        time.sleep(left_s)


class Work(NamedTuple):
    """An item on its way: its number in the data set, the chain so far, and ballast."""

    item: int
    chain: bytes
    payload: NDArray[np.uint8] | None


class Synthetic(App):
    name = "synthetic"
    description = "Functions of a given cost, busy or waiting; the result proves which stages an item passed."
    stages: tuple[Stage, ...] = (Stage("f1"), Stage("f2"), Stage("f3"))
    options_model: ClassVar[type[Options]] = SyntheticOptions

    def __init__(self, options: Options | None = None) -> None:
        super().__init__(options)
        assert isinstance(self.options, SyntheticOptions)
        self._options = self.options
        self._costs = Costs(self._options)
        count = len(self._options.stage_weights)
        self.stages = tuple(Stage(f"f{k}", time_limit_s=self._options.time_limit_s) for k in range(1, count + 1))
        for k in range(len(Synthetic.stages), count):
            setattr(self, f"f{k + 1}", partial(self._work, k))
        self._faulty_stage = min(1, count - 1)

    def f1(self, value: Work) -> Work:
        return self._work(0, value)

    def f2(self, value: Work) -> Work:
        return self._work(1, value)

    def f3(self, value: Work) -> Work:
        return self._work(2, value)

    def _work(self, stage: int, value: Work) -> Work:
        began_cpu_s, began_s = time.thread_time(), time.perf_counter()
        if stage == self._faulty_stage:
            self._go_wrong(value.item)
        chain = next_link(value.chain, self.stages[stage].name, value.payload)
        cost_s = self._costs.of(value.item, stage)
        if self._options.compute == "cpu":
            burn(cost_s, began_cpu_s)
        else:
            rest(cost_s, began_s)
        return Work(value.item, chain, value.payload)

    def _go_wrong(self, item: int) -> None:
        if item in self._options.fail_at:
            raise ValueError(f"item {item} fails, as fail_at asks")
        if item in self._options.hang_at:
            time.sleep(self._options.hang_s)
        if item in self._options.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def items(self, path: Path | None) -> Iterator[Work]:
        if path is not None:
            raise RecomposeError(f"app 'synthetic' makes its own items and takes no path, but {str(path)!r} was given")
        return (self._item(number) for number in range(self._options.items))

    def from_json(self, value: Any) -> Work:
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise ValueError(f"{value!r} is no item of app 'synthetic'; must be an item number, 0 or more")
        return self._item(value)

    def _item(self, number: int) -> Work:
        payload = None
        if self._options.payload_bytes:
            payload = np.full(self._options.payload_bytes, number % 251, dtype=np.uint8)
        return Work(number, first_link(self._options.seed, number), payload)

    def encode_result(self, value: Work) -> dict[str, Any]:
        return {"item": value.item, "chain": value.chain.hex()}
