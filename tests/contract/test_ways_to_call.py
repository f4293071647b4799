"""Stages of any number of values, of bundles, with a state and that wait, on every pool."""

import random
from collections.abc import Sequence

import pytest
from rig import Rig

from runtime.dispatch.settings import DispatcherSettings

SHAPES = [
    "Seq-Seq-Seq-Seq-Seq",
    "Par*2(spread,odd)-Par*2(ask,pairs)-Seq",
    "Seq(spread,odd,ask,pairs,total)",
    *("Dyn*1", "Dyn*3(ct)", "Dyn*3(kanban)", "Dyn*2(qst)"),
]
RESIZED = "Par*3(spread,odd)-Seq(ask,pairs)-Seq"
"""The second of them, with other numbers of workers."""


def expected(numbers: Sequence[int]) -> dict[int, list[int]]:
    """By serial number, without the items at fault."""
    total, out = 0, dict[int, list[int]]()
    for serial, number in enumerate(numbers):
        asked = [value + 100 for value in range(number, number + number % 3) if value % 2]
        if 113 in asked:
            continue
        out[serial] = []
        for value in asked:
            for each in (value, -value) if value % 5 == 0 else (value,):
                total += each
                out[serial] += each, total
    return out


@pytest.mark.parametrize("shape", SHAPES)
def test_any_composition_and_size_of_bundle_gives_what_a_loop_gives(make_rig, shape):
    """The sizes one after the other, with the same workers; the item at fault comes once a size."""
    rig: Rig = make_rig("calls").open(shape)
    numbers: list[int] = []
    for size in (1, 7, 50):
        for first in range(0, 100, size):
            rig.feed_bundle(range(first, min(100, first + size)))
        numbers += range(100)
        rig.finish()
        rig.check_order(len(numbers))
        assert rig.by_serial == expected(numbers)
    assert ["no 113 here" in out.error for out in rig.delivered if out.error is not None] == [True] * 3


def test_a_mixed_run(make_rig):
    rig: Rig = make_rig("calls", settings=DispatcherSettings()).open(SHAPES[0])
    fed = rig.mix(random.Random(11), 12, [*SHAPES, RESIZED, RESIZED], lose_every=4)
    assert rig.by_serial == expected(range(fed))


def test_many_calls_wait_in_one_worker_also_of_bundles_of_one(make_rig):
    rig: Rig = make_rig("calls", until=10).open(SHAPES[0])
    rig.patience_s = 120.0
    rig.run_until(lambda: {worker.group for worker in rig.engine.view().workers} >= set(range(5)))
    rig.feed([1] * 20)
    rig.finish()
    rig.check_order(20)
    assert [value[::2] for value in rig.by_serial.values()] == [[101]] * 20


@pytest.mark.parametrize("shape", ["Seq-Seq-Seq", "Seq(spread,wait)-Par*2(total)", "Dyn*2", "Seq(spread,wait,total)"])
@pytest.mark.parametrize("size", [1, 3])
def test_a_stage_that_waits_for_one_at_a_time_answers_in_turn(make_rig, shape, size):
    """What has no value for it is done at once, and still not before what came earlier."""
    rig: Rig = make_rig("one_waits").open(shape)
    numbers, totals = [4 * first + left for first in range(40) for left in (3, 0, 1, 0, 2)], dict[int, int]()
    for first in range(0, len(numbers), size):
        rig.feed_bundle(numbers[first : first + size])
    rig.finish()
    rig.check_order(len(numbers))
    for serial, found in rig.by_serial.items():
        for value in found:
            totals[numbers[serial] % 5] = totals.get(numbers[serial] % 5, 0) + numbers[serial]
            assert value == totals[numbers[serial] % 5]
        assert len(found) == numbers[serial] % 4
