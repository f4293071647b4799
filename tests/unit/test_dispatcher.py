"""The dispatcher's rules one by one; tests/property shuffles them all, tests/contract runs them on every pool."""

import pytest
from dispatcher_bench import Bench, composition

from compositions.model import Stage, StageKind
from runtime.dispatch.events import (
    BundleAdmitted,
    SwitchRequested,
    SwitchStyle,
    TaskFailed,
    WorkerAnswered,
    WorkerJoined,
    WorkerLeaving,
    WorkerStartFailed,
)
from runtime.dispatch.instructions import AskWorker, StartWorkers, StopWorker
from runtime.dispatch.outbox import ReorderBuffer
from runtime.dispatch.outcomes import Delivered, StartFailed, SwitchEnded, SwitchOverdue, TaskTimed

WHOLE = ("a", "b", "c")


def test_starts_the_workers_of_the_composition_and_a_spare():
    assert Bench("Seq-Par*3-Seq").of(StartWorkers) == [StartWorkers(6)]


def test_short_tasks_are_prefetched_long_ones_are_not():
    bench = Bench("Seq(a,b,c)", workers=1, prefetch_below_s=0.02)
    bench.admit(4)
    assert len(bench.running()) == 1, "nothing is known of the first task"
    bench.done(0, busy_s=0.001)
    assert len(bench.running()) == 2
    for task_id in range(1, 3):
        bench.done(task_id, busy_s=3.0)
    assert len(bench.running()) == 1


def test_round_robin_waits_for_the_replica_whose_turn_it_is_and_keeps_the_order():
    bench = Bench("Par*2(a,b,c)", workers=2, scheduling="round-robin", prefetch_below_s=0)
    bench.admit(4)
    assert bench.running() == [("w1", 1, WHOLE), ("w2", 0, WHOLE)]
    bench.done(1)
    assert bench.serials == [0], "w1 is free, and it is the turn of w2"
    bench.done(0)
    assert bench.running() == [("w1", 3, WHOLE), ("w2", 2, WHOLE)]
    bench.finish()
    assert bench.delivered == [0, 1, 2, 3]


def test_it_says_when_its_buffer_is_full():
    bench = Bench("Seq(a,b,c)", workers=1, buffer_items=1, prefetch_below_s=0)
    bench.admit()
    assert not bench.view.full
    bench.admit()
    assert bench.view.full


def test_in_flight_is_limited_so_that_a_drain_is_short():
    bench = Bench("Seq-Seq-Seq", workers=3)
    bench.admit(30)
    for _ in range(20):
        first = [task_id for task_id, (_, task) in bench.tasks.items() if task.stages == ("a",)]
        if first:
            bench.done(first[0])
    assert (bench.view.in_flight, bench.view.queued) == (6, 24)


def test_the_hop_is_measured_on_idle_workers_only():
    bench = Bench("Seq(a,b,c)", workers=1)
    bench.admit()
    bench.now_s = 0.125
    bench.done(0, busy_s=0.1)
    (timed,) = bench.of(TaskTimed)
    assert timed.hop_s == pytest.approx(0.025)


def test_a_dead_letter_does_not_hold_up_a_stateful_stage():
    bench = Bench("Par*2(a)-Seq(b)", (Stage("a"), Stage("b", StageKind.STATEFUL)), workers=3, attempts=1)
    bench.admit(2)
    bench.done(1)
    bench.handle(TaskFailed(0.0, bench.tasks.pop(0)[0], 0, "a", "boom"))
    assert [(serial, stages) for _, serial, stages in bench.running()] == [(1, ("b",))]


# --- lost workers ----------------------------------------------------------------------------------------------------


def holder(bench: Bench) -> str:
    """Who was given the last task."""
    return bench.tasks[max(bench.tasks)][0]


def test_only_the_running_task_counts_a_loss():
    bench = Bench("Seq(a,b,c)", workers=2, losses=1)
    bench.admit(2)
    bench.done(0, busy_s=0.001)
    bench.admit(1)
    assert len(bench.running()) == 2
    bench.lose("w1", "SIGKILL", at_s=1.0)
    assert [each.error for each in bench.of(Delivered)] == [None, "worker w1 was lost: SIGKILL"]
    assert bench.running() == [("w2", 2, WHOLE)]


@pytest.mark.parametrize("lost_s", [(1.0, 1.0, 1.0), (1.0, 2.0, 3.0)], ids=["together", "noticed one by one"])
def test_a_lost_machine_costs_an_item_one_loss(lost_s: tuple[float, ...]):
    """The item was at w3 and then at w1, which was dead; w2 was the group's last worker, and was not given it."""
    bench = Bench("Par*3(a,b,c)", workers=3, losses=2)
    bench.admit(1)
    for worker, second in zip(("w3", "w1", "w2"), lost_s, strict=True):
        bench.lose(worker, "its machine is gone", second)
    assert not bench.of(Delivered)
    bench.now_s = 4.0
    bench.join("w4")
    assert bench.running() == [("w4", 0, WHOLE)]
    bench.lose("w4", "SIGKILL", at_s=5.0)
    (dead,) = bench.of(Delivered)
    assert dead.error == "worker w4 was lost: SIGKILL"


def test_a_worker_that_answered_after_the_loss_before_counts_another():
    bench = Bench("Par*3(a,b,c)", workers=3, losses=2)
    bench.admit(1)
    first = holder(bench)
    bench.lose(first, at_s=1.0)
    assert bench.of(AskWorker) == [AskWorker(worker, 1) for worker in ("w1", "w2", "w3") if worker != first]
    second = holder(bench)
    bench.handle(WorkerAnswered(1.1, second, 1))
    bench.lose(second, "SIGKILL", at_s=2.0)
    (dead,) = bench.of(Delivered)
    assert dead.error == f"worker {second} was lost: SIGKILL"


def test_what_went_with_its_machine_is_no_suspect():
    bench = Bench("Par*4(a,b,c)", losses=2)
    far = ("w1", "w2", "w3")
    for worker in (*far, "w4"):
        bench.handle(WorkerJoined(0.0, worker, 1, "far" if worker in far else "near"))
    bench.admit(4)
    for second, worker in enumerate(far, 1):
        bench.lose(worker, "its machine is gone", second)
    while bench.tasks:
        bench.done(min(bench.tasks), busy_s=0.001)
    assert bench.delivered == [0, 1, 2, 3], "none waited for another worker"


def test_a_machine_of_which_a_worker_was_heard_since_still_lives():
    bench = Bench("Par*3(a,b,c)", losses=2)
    for worker, node in (("w1", "far"), ("w2", "far"), ("w3", "near")):
        bench.handle(WorkerJoined(0.0, worker, 1, node))
    bench.admit(3)
    bench.lose("w1", at_s=1.0)
    bench.handle(WorkerAnswered(1.1, "w2", 1))
    bench.lose("w2", at_s=2.0)
    bench.done(min(bench.tasks), busy_s=0.001)
    assert not bench.tasks, "two suspects wait for a worker to spare"


def test_an_answer_to_an_earlier_question_counts_no_loss():
    bench = Bench("Par*4(a,b,c)", workers=4, losses=2)
    bench.lose("w4", at_s=0.5)
    bench.admit(1)
    bench.lose(holder(bench), at_s=1.0)
    bench.handle(WorkerAnswered(1.1, holder(bench), 1))  # asked after the first of the two
    bench.lose(holder(bench), at_s=2.0)
    assert not bench.of(Delivered)


def test_a_group_left_alone_borrows_a_worker():
    bench = Bench("Seq(a)-Par*2(b,c)", workers=3, spares=0)
    for _ in range(2):  # it may be told twice
        bench.lose("w1")
    assert [(each.worker, each.group) for each in bench.view.workers] == [("w2", 0), ("w3", 1)]


def test_a_failing_start_is_reported_and_tried_again_after_a_pause():
    bench = Bench("Seq(a,b,c)", restart_pause_s=1.0)
    for _ in range(2):
        bench.handle(WorkerStartFailed(0.0, "no room"))
    assert [failed.consecutive for failed in bench.of(StartFailed)] == [1, 2]
    bench.tick(0.5)
    assert bench.of(StartWorkers) == [StartWorkers(2)]
    bench.tick(1.1)
    assert bench.of(StartWorkers) == [StartWorkers(2)] * 2


# --- switches --------------------------------------------------------------------------------------------------------


def test_a_switch_that_waits_for_workers_gives_way_to_a_newer_one_which_takes_those_that_come():
    bench = Bench("Seq(a,b,c)", workers=1, spares=0)
    bench.admit(2)
    bench.switch("Par*3(a,b)-Seq(c)")
    assert bench.of(StartWorkers) == [StartWorkers(1), StartWorkers(3)]
    bench.switch("Seq(a)-Seq(b,c)")
    (gone,) = bench.of(SwitchEnded)
    assert gone.error == "cancelled before any worker changed: a switch to Seq(a)-Seq(b,c) was requested"
    assert (gone.called_off, gone.to_name, gone.from_name) == (True, "Par*3(a,b)-Seq(c)", "Seq(a,b,c)")
    assert bench.of(StartWorkers) == [StartWorkers(1), StartWorkers(3)], "enough are on their way"
    bench.join("w2")
    assert bench.view.composition.name == "Seq(a)-Seq(b,c)"
    bench.finish()
    assert bench.delivered == [0, 1]
    assert [ended.error for ended in bench.of(SwitchEnded)][1:] == [None]


def test_workers_of_a_switch_that_was_called_off_are_given_back_when_nobody_has_needed_them_for_long():
    bench = Bench("Seq(a,b,c)", workers=1, spares=0, idle_worker_s=10.0)
    bench.switch("Par*3(a,b,c)")
    bench.call_off("the mode was set to auto")
    (gone,) = bench.of(SwitchEnded)
    assert gone.error == "cancelled before any worker changed: the mode was set to auto"
    assert not bench.view.switching
    bench.join("w2", "w3")
    bench.tick(9.0)
    assert bench.of(StopWorker) == []
    bench.tick(10.1)
    assert len(bench.of(StopWorker)) == 2


def draining(style: SwitchStyle = SwitchStyle.SEAMLESS, **times: float) -> Bench:
    """A switch with three items on their way, one in each group, and two that wait."""
    bench = Bench("Seq-Seq-Seq", workers=7, spares=3)
    bench.admit(3)
    for task_id in range(3):
        bench.done(task_id)
    assert bench.view.positions == {"a": 1, "b": 1, "c": 1}
    bench.switch("Par*2(a,b,c)", style, **times)
    bench.admit(2)
    return bench


def test_a_switch_whose_items_move_is_not_called_off():
    bench = draining()
    assert not bench.view.preparing
    bench.call_off("too late")
    bench.switch("Seq(a,b,c)")
    assert [ended.error for ended in bench.of(SwitchEnded)] == ["a switch to Par*2(a,b,c) is under way"]
    bench.finish()
    assert bench.view.composition.name == "Par*2(a,b,c)"


def test_seamless_feeds_the_new_composition_when_its_first_result_will_follow_the_last_of_the_old():
    bench = draining(drain_mean_s=0.5, drain_estimate_s=0.9, first_result_s=0.2)
    assert bench.dispatcher.wake_at_s == pytest.approx(0.3)
    assert bench.view.queued == 2
    bench.tick(0.3)
    assert bench.view.queued == 0


def test_drain_feeds_the_new_composition_when_the_old_is_empty():
    bench = draining(SwitchStyle.DRAIN, drain_mean_s=0.5, drain_estimate_s=0.9)
    bench.now_s = 0.4
    while not bench.of(SwitchEnded):
        assert bench.view.queued == 2
        bench.done(min(bench.tasks))
    (ended,) = bench.of(SwitchEnded)
    assert (ended.drain_actual_s, ended.overdue) == (pytest.approx(0.4), False)
    assert bench.view.queued == 0


def test_a_drain_that_waits_for_its_estimate_is_held_though_the_old_composition_is_empty():
    bench = draining(SwitchStyle.DRAIN, drain_estimate_s=0.9, wait_s=0.9)
    bench.now_s = 0.4
    bench.finish()
    assert (bench.of(SwitchEnded), bench.view.queued) == ([], 2)
    assert bench.dispatcher.wake_at_s == pytest.approx(0.9)
    bench.tick(0.9)
    (ended,) = bench.of(SwitchEnded)
    assert (ended.drain_actual_s, ended.overdue) == (pytest.approx(0.4), False)
    assert bench.view.queued == 0


def test_what_is_left_when_the_estimate_is_over_leaves_before_what_the_new_composition_got():
    bench = draining(SwitchStyle.DRAIN, drain_estimate_s=0.1, wait_s=0.1)
    bench.tick(0.1)
    while bench.tasks:
        bench.done(max(bench.tasks))
    (ended,) = bench.of(SwitchEnded)
    assert (ended.overdue, ended.migrated) == (True, 0)
    delivered = [(item.serial, item.payload) for item in bench.of(Delivered)]
    assert delivered == [*((serial, "item>a>b>c") for serial in range(3)), (3, "item>c"), (4, "item>c")]


def test_workers_change_over_from_the_front_while_the_old_composition_drains():
    bench = Bench("Seq-Seq-Seq", workers=3, spares=0)
    bench.admit()
    bench.done(0)
    bench.switch("Seq-Seq(b,c)")
    bench.admit()
    assert bench.running() == [("w1", 1, ("a",)), ("w2", 0, ("b",))]


def test_an_overdue_drain_backs_off_and_is_reported():
    bench = draining(drain_mean_s=0.5, drain_estimate_s=0.9)
    bench.tick(0.9)
    bench.tick(1.8)
    assert [late.estimate_s for late in bench.of(SwitchOverdue)] == pytest.approx([0.9, 1.8])
    assert bench.dispatcher.wake_at_s == pytest.approx(3.6)


def test_a_drain_beyond_its_limit_moves_the_items_and_gives_no_sample():
    bench = draining(drain_mean_s=0.1, drain_estimate_s=0.2)
    bench.tick(10.1)
    bench.finish()
    (ended,) = bench.of(SwitchEnded)
    assert ended.migrated == 2, "one item was in its last stage"
    assert ended.drain_actual_s is None
    delivered = [(item.serial, item.payload) for item in bench.of(Delivered)][:3]
    assert delivered == [(0, "item>a>b>c"), (1, "item>a>b>c"), (2, "item>a>c")], "b and c are one task in the new one"


def test_a_drain_disturbed_by_a_loss_gives_no_sample():
    bench = draining(drain_mean_s=0.1, drain_estimate_s=9.0)
    bench.lose(bench.running()[0][0])
    bench.finish()
    (ended,) = bench.of(SwitchEnded)
    assert (ended.drain_actual_s, ended.error) == (None, None)


def test_a_composition_of_another_app_is_refused():
    bench = Bench("Seq-Seq-Seq")
    bench.handle(SwitchRequested(0.0, composition("Seq", (Stage("z"),)), SwitchStyle.DRAIN))
    assert "does not run" in bench.of(SwitchEnded)[0].error


def test_the_reorder_buffer_refuses_a_doubled_serial():
    buffer: ReorderBuffer[str] = ReorderBuffer()
    assert buffer.put(1, "b") == []
    assert buffer.put(0, "a") == ["a", "b"]
    with pytest.raises(ValueError, match="serial 1 was delivered before; next is 2"):
        buffer.put(1, "b")


def test_bundles_larger_than_the_reorder_limit_keep_every_group_at_work() -> None:
    bench = Bench("Seq-Seq-Seq", workers=3, reorder_items=1024)
    for _ in range(8):
        bench.handle(BundleAdmitted(bench.now_s, (bench.now_s,) * 2000, "items"))
    for _ in range(2):
        for task_id in [task_id for task_id, (_, task) in bench.tasks.items() if task.start == 0][:2]:
            bench.done(task_id)
    assert {worker for worker, _ in bench.tasks.values()} == {"w1", "w2", "w3"}


# --- workers that leave ----------------------------------------------------------------------------------------------


def test_a_worker_whose_node_is_to_go_works_until_another_has_its_place_and_loses_no_task():
    bench = Bench("Seq(a,b)-Seq(c)", workers=2, spares=0)
    bench.admit(2)
    bench.instructions.clear()
    (leaver,) = [worker for worker, _, stages in bench.running() if stages == ("a", "b")]
    bench.handle(WorkerLeaving(0.0, leaver))
    assert bench.instructions == [StartWorkers(1)]
    bench.done(0)
    assert leaver in [worker for worker, _, _ in bench.running()], "there is no other yet"
    bench.join("w3")
    bench.admit(1)
    bench.finish()
    bench.tick(1.0)
    assert StopWorker(leaver) in bench.instructions
    assert bench.delivered == [0, 1, 2]
    assert bench.view.restarts == 0
    assert not bench.of(StartFailed)


def test_a_warm_spare_takes_the_place_of_a_worker_that_leaves_at_once():
    bench = Bench("Seq(a,b,c)", workers=2, spares=1)
    bench.handle(WorkerLeaving(0.0, "w1"))
    bench.admit(1)
    assert bench.running() == [("w2", 0, WHOLE)]
    bench.tick(1.0)
    assert StopWorker("w1") in bench.instructions
