"""SPBench's own source and sink on real workers: algorithm 1 of Garcia et al. 2023, and no order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest

from apps.rates import Fixed, Rate
from datapipe.sources.sources import Arrival
from lab.experiments.spbench import FrequencyManager


class Reading:
    """A source that takes ``work_s`` to read an item, on a clock whose sleeps take ``overshoot_s`` too long."""

    def __init__(self, rate: Rate, work_s: float = 0.0, overshoot_s: float = 0.0) -> None:
        self.now_s, self.work_s, self.overshoot_s = 100.0, work_s, overshoot_s
        self.slept_s: list[float] = []
        self.manager = FrequencyManager(self, 1.0, clock=lambda: self.now_s)
        self.manager.wait = self.sleep
        self.manager.set_pattern(rate)

    def sleep(self, seconds: float) -> bool:
        self.slept_s.append(seconds)
        self.now_s += seconds + self.overshoot_s * (seconds > 0)
        return False

    def __iter__(self) -> Iterator[Arrival]:
        for number in range(20):
            began_s, self.now_s = self.now_s, self.now_s + self.work_s
            yield Arrival(began_s, number)

    def close(self) -> None: ...


def begins(reading: Reading) -> list[float]:
    return [later.arrived_s - before.arrived_s for before, later in pairwise(reading.manager)]


def test_the_sleep_is_the_delay_less_what_the_source_took() -> None:
    """The example of section 3.2: at 2 items/s, 150 ms of an item leave 350 ms of the 500."""
    reading = Reading(Fixed(2.0), work_s=0.15)
    assert begins(reading) == pytest.approx([0.5] * 19)
    assert reading.slept_s == pytest.approx([0.0] + [0.35] * 20)
