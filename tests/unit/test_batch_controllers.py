"""Batch controllers, step by step against tables worked out by hand from the formulas.

Target 3 ms, threshold 5 % (band 2.85 … 3.15 ms), step 10, every latency a decision, unless a test says otherwise.
"""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from compositions.batch_settings import BatchSettings, Gains, LatencyAim, Sizes, Steps
from control.bundles import BATCH_CONTROLLERS, BatchControllerError, make_batch_controller
from control.bundles.port import BatchController, BundleOpening, DeliveredBundle

SETTINGS = BatchSettings(LatencyAim(3.0, 0.05), Sizes(1, 1000, 50), Steps(10.0, 1), Gains(10.0, 15.0, 3.0))
STEPPING = ("faf", "pbaf", "pbaf-wt", "mbaf", "pmbaf")


def tell(controller: BatchController, *latencies_ms: float) -> None:
    for latency_ms in latencies_ms:
        controller.delivered(DeliveredBundle(0, 1, latency_ms / 1e3, 0.0, latency_ms / 1e3))


def sizes(controller: BatchController, latencies_ms: Iterable[float]) -> list[int]:
    """The size after each latency."""
    found = []
    for latency_ms in latencies_ms:
        tell(controller, latency_ms)
        found.append(controller.next(BundleOpening(0)).items)
    return found


TABLES = {
    "faf": [
        (1.5, 60),  # below the band: 50 + 10
        (3.1, 60),  # within
        (2.9, 60),  # within
        (3.2, 50),  # above: 60 - 10
        (9.0, 40),  # however far: 50 - 10
    ],
    "pbaf": [
        (3.6, 46),  # 1.2 T: (1.2 - 1) / 0.6 = 1/3 of the step: 50 - 3.333 = 46.667
        (2.4, 51),  # 0.8 T: (1 - 0.6) / 0.8 = 1/2: 46 + 5
        (2.9, 51),  # within
        (1.2, 61),  # 0.4 T: 0.4 / 0.4 = 1: 51 + 10
        (0.6, 71),  # 0.2 T: min(0.4 / 0.2, 1) = 1
        (6.0, 61),  # 2 T: min(1 / 0.6, 1) = 1
    ],
    "pbaf-wt": [
        (3.03, 49),  # 1.01 T, within the band of the others: 0.01 / 0.6 = 1/60: 50 - 0.167 = 49.833
        (2.94, 53),  # 0.98 T: 0.4 / 0.98 = 0.40816: 49 + 4.082 = 53.082
        (3.0, 53),  # the target itself
        (6.0, 43),  # full step
    ],
    "mbaf": [
        (6.0, 30),  # 2 T: 50 - 10 · 2
        (3.6, 18),  # 1.2 T: 30 - 12
        (2.9, 18),  # within
        (2.4, 30),  # (2 · 3 - 2.4) / 3 = 1.2: 18 + 12
        (0.3, 49),  # (6 - 0.3) / 3 = 1.9: 30 + 19
    ],
    "pmbaf": [
        (3.6, 46),  # 0.7 T … 1.8 T is PBAF: 50 - 10/3 = 46.667
        (5.25, 36),  # 1.75 T, PBAF: 0.75 / 0.6 is more than 1
        (5.7, 17),  # 1.9 T, MBAF: 36 - 19
        (2.25, 22),  # 0.75 T, PBAF: 0.4 / 0.75 = 0.5333: 17 + 5.333 = 22.333
        (1.5, 42),  # 0.5 T, MBAF without its bound: T / lat = 2: 22 + 20
        (0.3, 142),  # T / lat = 10, where MBAF would take 1.9: 42 + 100
        (2.9, 142),  # within
    ],
    "pid": [
        (1.5, 14),  # e 0.5, I 0.5, D 0.5: 5 + 7.5 + 1.5 = 14
        (2.4, 11),  # e 0.2, I 0.7, D -0.3: 2 + 10.5 - 0.9 = 11.6
        (3.0, 9),  # e 0, I 0.7, D -0.2: 10.5 - 0.6 = 9.9
        (6.0, 1),  # e -1, I -0.3, D -1: -10 - 4.5 - 3 = -17.5, so 1, and I is 0 again
        (2.4, 8),  # e 0.2, I 0.2, D 1.2: 2 + 3 + 3.6 = 8.6
    ],
    "fixed": [(1.0, 50), (9.0, 50)],
}


@pytest.mark.parametrize("name", TABLES)
def test_sizes_are_those_of_the_table(name: str) -> None:
    latencies, expected = zip(*TABLES[name], strict=True)
    assert sizes(make_batch_controller(name, SETTINGS), latencies) == list(expected)


@pytest.mark.parametrize(("name", "stops_at"), [("pbaf", 0.4), ("pbaf-wt", 0.4), ("pmbaf", 0.7)])
def test_with_a_step_of_one_growth_stops_below_the_target(name: str, stops_at: float) -> None:
    """The slow convergence of section 5.3.2: beyond there a step is a fraction, and it is cut off."""
    controller = make_batch_controller(name, replace(SETTINGS, steps=Steps(1.0, 1)))
    below, above = 3.0 * (stops_at - 0.01), 3.0 * (stops_at + 0.01)
    assert sizes(controller, [above] * 3) == [50] * 3
    assert sizes(controller, [below])[0] > 50


@pytest.mark.parametrize("name", [*STEPPING, "pid"])
def test_it_decides_on_new_latencies_only(name: str) -> None:
    controller = make_batch_controller(name, replace(SETTINGS, steps=Steps(10.0, 3)))
    first = controller.next(BundleOpening(0))
    tell(controller, 1.0, 1.0)
    assert controller.next(BundleOpening(50)) is first, "two of three"
    tell(controller, 1.0)
    second = controller.next(BundleOpening(100))
    assert second.items != first.items
    assert controller.next(BundleOpening(150)) is second, "the three are used up"
    tell(controller, 1.0, 1.0)
    assert controller.next(BundleOpening(200)) is second


@pytest.mark.parametrize("name", BATCH_CONTROLLERS)
def test_sizes_stay_within_bounds(name: str) -> None:
    controller = make_batch_controller(name, replace(SETTINGS, sizes=Sizes(5, 60, 50)))
    extremes = [1e-9, 0.0, 1e-9, 1e9, 1e9, 3.0, 0.01, 0.01, 0.01]
    assert all(5 <= items <= 60 for items in sizes(controller, extremes))


def test_a_step_is_told_with_its_figures() -> None:
    controller = make_batch_controller("pbaf", SETTINGS)
    tell(controller, 3.6)
    assert controller.next(BundleOpening(0)).reason == "pbaf: latency 3.6 ms, size 50 → 46"


def test_each_is_known_by_its_own_name() -> None:
    names = {name: make_batch_controller(name, SETTINGS).name for name in BATCH_CONTROLLERS}
    assert names == {name: name for name in BATCH_CONTROLLERS}
    with pytest.raises(BatchControllerError, match=r"unknown batch controller 'bafp'; there are fixed, faf, "):
        make_batch_controller("bafp", SETTINGS)
