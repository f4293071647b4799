"""A controller at work: who it is, what it is told of the bundles of a run, and what it aims at."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import Mock

import pytest

from compositions.batch_settings import BatchSettings, Sizes, Steps
from compositions.batching import Batching, SizeControl
from control.bundles.batch_control import Circumstances, Steering, control_for
from control.bundles.port import BundleOpening, Choice, DeliveredBundle
from profiler.snapshot import StageTiming
from runtime.dispatch.outcomes import Delivered, TaskTimed

FAF = SizeControl("faf", BatchSettings(sizes=Sizes(1, 1000, 50), steps=Steps(10.0, 1)))


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """A controller with one item more at every bundle."""
    controller = Mock()
    controller.next.side_effect = lambda opening: Choice(controller.next.call_count, "one more")
    monkeypatch.setattr("control.bundles.batch_control.make_batch_controller", lambda *_: controller)
    return controller


def seen(now_s: float, rate_per_s: float | None = None, waiting: int = 0) -> Circumstances:
    return Circumstances(now_s, rate_per_s, waiting)


def timed(serial: int, items: int, *wall_s: float, hop_s: float | None = None) -> TaskTimed:
    timings = tuple(StageTiming("a", each, each) for each in wall_s)
    return TaskTimed(0.0, "chain", timings, hop_s, 0, serial, items)


def left(serial: int, *arrived_s: float, at_s: float) -> Delivered:
    return Delivered(at_s, serial, arrived_s, arrived_s[-1], "chain")


def bundles(heard: Mock) -> list[DeliveredBundle]:
    """Those it was told of."""
    return [call.args[0] for call in heard.delivered.call_args_list]


def test_what_a_controller_is_told_of_a_bundle(heard: Mock) -> None:
    steering = Steering(FAF, 50)
    steering.hop_s = 0.001
    assert steering.admitted(100, 3, seen(1.0, 500.0, 7)).items == 2
    steering.timed(timed(100, 3, 0.002, 0.003, hop_s=None))
    steering.timed(timed(100, 3, 0.004, hop_s=0.5))  # the mean hop counts, not this one
    steering.timed(timed(99, 1, 1.0))  # of nobody that is followed
    steering.delivered(left(100, 0.99, 0.995, 0.998, at_s=1.02))
    assert heard.next.call_args.args == (BundleOpening(0, 500.0, 7),)
    (told,) = bundles(heard)
    assert (told.first, told.items) == (0, 3)
    assert (told.latency_s, told.filled_s) == pytest.approx((0.03, 0.008))
    assert told.work_s == pytest.approx(0.002 + 0.003 + 0.004 + 2 * 0.001)


def test_what_was_split_shed_or_failed_tells_nothing(heard: Mock) -> None:
    steering = Steering(FAF, 50)
    for number in range(4):
        steering.admitted(10 * number, 10, seen(float(number)))
    steering.delivered(left(0, *[0.0] * 4, at_s=5.0))  # a part of it
    steering.delivered(replace(left(10, 0.0, at_s=5.0), error="a dead letter"))
    steering.delivered(left(30, *[0.0] * 10, at_s=5.0))  # the one before was shed
    assert [each.first for each in bundles(heard)] == [30]
    steering.delivered(left(20, *[0.0] * 10, at_s=6.0))
    assert len(bundles(heard)) == 1


def test_a_published_controller_follows_the_latency_of_bundles() -> None:
    control = control_for(Batching(control=FAF), 0.02, pays=False)
    steering = Steering(control, 50)
    assert steering.choice.items == 50
    steering.admitted(0, 50, seen(1.0))
    steering.delivered(left(0, *[1.0] * 50, at_s=1.01))
    assert steering.admitted(50, 50, seen(2.0)).items == 60  # 10 ms is below 20: a step of 10 more
    assert steering.settings["target_ms"] == 20.0
