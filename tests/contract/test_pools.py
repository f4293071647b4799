"""Hold all pools to what every driver must do: order, exactly once, retries, loss, time limits, switches. One suite."""

import numpy as np
import pytest
from rig import Rig, expected

from compositions.model import TransitionKind
from runtime.dispatch.events import SwitchStyle
from runtime.dispatch.outcomes import Shed, StartFailed, WorkersChanged
from runtime.dispatch.settings import DispatcherSettings

LOSES = DispatcherSettings(losses=100)
"""Of tests that kill any busy worker: it may hold the same item each time, which is no dead letter for that."""
SHAPES = [
    "Seq-Seq-Seq-Seq",
    "Par-Par-Seq-Par",
    "Seq(f1,f2,f3,f4)",
    "Par*3(f1,f2)-Seq(f3,f4)",
    "Par*2(first)-Seq(second,total)-Par*2(last)",
]


@pytest.mark.parametrize("style", list(SwitchStyle))
def test_switches_under_load_lose_double_and_reorder_nothing(make_rig, style):
    rig: Rig = make_rig(work_s=0.002).open(SHAPES[0])
    for round_, shape in enumerate([*SHAPES[1:], *SHAPES]):
        rig.feed(range(round_ * 15, round_ * 15 + 15))
        rig.switch(shape, style, drain_estimate_s=0.05, drain_mean_s=0.03, first_result_s=0.01)
        rig.feed([])
        rig.run_until(lambda: not rig.engine.view().switching)
    rig.finish()
    rig.check_order(135)
    assert rig.values == expected(range(135))
    assert [switch.error for switch in rig.switches] == [None] * 9
    assert rig.engine.view().composition.name == SHAPES[-1]


def test_a_switch_uses_every_composition_in_serial_order(make_rig):
    rig: Rig = make_rig(work_s=0.002).open(SHAPES[0])
    rig.feed(range(20))
    rig.switch(SHAPES[1], SwitchStyle.SEAMLESS)
    count = rig.feed_until_handed_over(20, SHAPES[1])
    rig.feed(range(count, count + 20))
    rig.finish()
    rig.check_order(count + 20)
    names = [item.composition for item in rig.delivered]
    first_new = names.index(SHAPES[1])
    assert set(names[:first_new]) == {SHAPES[0]}
    assert set(names[first_new:]) == {SHAPES[1]}


def test_resizes_under_load_lose_double_and_reorder_nothing(make_rig):
    rig: Rig = make_rig(work_s=0.004).open("Par*3(f1,f2)-Seq-Par*2")
    sizes = ["Seq(f1,f2)-Seq-Par*4", "Par*4(f1,f2)-Seq-Seq", "Seq(f1,f2)-Seq-Seq", "Par*2(f1,f2)-Seq-Par*3"]
    for turn, shape in enumerate([*sizes, *sizes]):
        rig.feed(range(turn * 12, turn * 12 + 12))
        rig.switch(shape, SwitchStyle.SEAMLESS)
        rig.run_until(lambda: not rig.engine.view().switching)
        assert rig.engine.view().composition.name == shape
    rig.finish()
    rig.check_order(96)
    assert rig.values == expected(range(96))
    assert [(each.kind, each.error, each.migrated) for each in rig.switches] == [(TransitionKind.RESIZE, None, 0)] * 8


def test_an_item_whose_stage_raises_is_retried_then_dead_lettered_and_the_stream_goes_on(make_rig):
    rig: Rig = make_rig(fail_at=(3, 7)).open(SHAPES[1])
    rig.feed(range(20))
    rig.finish()
    rig.check_order(20)
    assert rig.values == expected(range(20), skip=(3, 7))
    dead = [item for item in rig.delivered if item.error is not None]
    assert [item.serial for item in dead] == [3, 7]
    assert "ValueError: cannot digest 3" in dead[0].error
    assert "in second" in dead[0].error


def test_a_lost_worker_loses_no_item_and_is_replaced(make_rig):
    rig: Rig = make_rig(work_s=0.005, settings=LOSES).open("Par-Par-Seq-Par")
    for burst in range(4):
        rig.feed(range(burst * 15, burst * 15 + 15))
        rig.lose_a_busy_worker()
    rig.finish()
    rig.check_order(60)
    assert rig.values == expected(range(60))
    assert rig.engine.view().restarts == 4
    assert sum(len(outcome.lost) for outcome in rig.outcomes if isinstance(outcome, WorkersChanged)) == 4


def test_a_hanging_stage_is_stopped_at_its_time_limit(make_rig):
    rig: Rig = make_rig(hang_at=5, settings=DispatcherSettings(losses=1)).open("Par(f1,f2)-Seq-Seq")
    rig.feed(range(12))
    rig.finish()
    rig.check_order(12)
    dead = [item for item in rig.delivered if item.error is not None]
    assert [item.serial for item in dead] == [5]
    assert "first, second did not return within its time limit of 3 s" in dead[0].error


def test_shedding_drops_the_oldest_unstarted_item_and_counts_it(make_rig):
    settings = DispatcherSettings(buffer_items=4, overload="shed", spares=0)
    rig: Rig = make_rig(settings=settings, work_s=0.02).open(SHAPES[0])
    rig.feed(range(40))
    rig.finish()
    rig.check_order(40)
    shed = [outcome.serial for outcome in rig.outcomes if isinstance(outcome, Shed)]
    assert shed
    assert 39 not in shed
    assert rig.values == expected(range(40), skip=shed)


def test_a_switch_that_fails_half_way_leaves_the_old_composition_running(make_rig, tmp_path):
    no_more = tmp_path / "no-more-workers"
    rig: Rig = make_rig(settings=DispatcherSettings(spares=0), refuse_setup_if=str(no_more)).open(SHAPES[2])
    rig.feed(range(10))
    rig.run_until(lambda: bool(rig.delivered))
    no_more.touch()
    rig.switch(SHAPES[1], SwitchStyle.SEAMLESS)
    rig.feed(range(10, 30))
    rig.run_until(lambda: bool(rig.switches))
    assert "no licence for this test" in rig.switches[0].error
    rig.finish()
    rig.check_order(30)
    assert rig.values == expected(range(30))
    assert {item.composition for item in rig.delivered} == {SHAPES[2]}


def test_workers_that_cannot_start_are_reported_with_the_reason(make_rig, tmp_path):
    rig: Rig = make_rig(refuse_setup_if=str(tmp_path))
    rig.open(SHAPES[0])
    rig.run_until(lambda: any(isinstance(outcome, StartFailed) for outcome in rig.outcomes))
    failed = next(outcome for outcome in rig.outcomes if isinstance(outcome, StartFailed))
    assert "no licence for this test" in failed.reason


def test_a_source_may_use_its_buffer_again_while_its_items_wait(make_rig):
    rig: Rig = make_rig(settings=DispatcherSettings(buffer_items=20, spares=0)).open(SHAPES[0])
    buffer = np.zeros(1, np.int64)
    for number in range(20):
        buffer[:] = number
        rig.engine.admit(rig.codec.encode([buffer]), (rig.engine.now_s,))
    buffer[:] = -1
    rig.finish()
    assert [value[0].tolist() for value in rig.values] == [[number] for number in range(20)]


def test_a_pool_that_is_closed_does_not_wait_for_setup_and_may_be_closed_twice(make_rig, tmp_path):
    entered, go_on = tmp_path / "entered", tmp_path / "go on"
    rig: Rig = make_rig(setup_waits=(str(entered), str(go_on))).open(SHAPES[2])
    rig.run_until(entered.exists)
    for _ in range(2):
        rig.engine.close()
    go_on.touch()  # only now could setup have ended
    assert rig.outcomes == []
