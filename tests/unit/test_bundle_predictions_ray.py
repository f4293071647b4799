"""The benchmark of predictions in real time, on threads and for moments: that it runs, and measures what it says."""

from __future__ import annotations

import math

from compositions.model import Composition, Group
from lab.benchmarks.bundle_predictions import checks
from lab.benchmarks.bundle_predictions_ray import BUNDLE_S, Lengths, RealSetting, Stream, drawn
from lab.benchmarks.workloads import Priced
from runtime.pools.local import LocalPool, PickleCodec


def test_a_setting_is_predicted_and_measured() -> None:
    two = Composition("two", (Group(("a", "b")), Group(("c", "d"))))
    setting = RealSetting((2e-4,) * 4, (0.1,) * 4, True, two, items=2, load=0.5, seed=1)
    stream = Stream(LocalPool(Priced), PickleCodec(), Lengths(0.1, 0.1, 0.1))
    try:
        outcome = stream.measured(setting)
    finally:
        stream.close()
    assert 0 < outcome.throughput_per_s < 1 / 4e-4, "two stages of 0.2 ms one after the other"
    assert 0 < outcome.told.throughput_per_s < 1 / 4e-4
    assert outcome.latency_s > 8e-4
    assert all(checks([outcome], limit=math.inf).values())
    assert not any(checks([outcome], limit=-1.0).values())


def test_settings_are_such_as_a_run_of_seconds_can_have() -> None:
    settings = [drawn(seed) for seed in range(1, 41)]
    assert max(each.items * sum(each.costs_s) for each in settings if each.items > 1) < 1.1 * BUNDLE_S
    assert {each.waits for each in settings} == {True, False}
    assert {len(each.composition.groups) for each in settings} == {1, 2, 3, 4}
