"""A change of replicas alone: in place, without a drain, whatever else happens."""

import pytest
from dispatcher_bench import Bench

from compositions.model import Composition, Group, Pattern, TransitionKind
from runtime.dispatch.events import Event, SwitchRequested, SwitchStyle, Tick, WorkerStartFailed
from runtime.dispatch.instructions import SendTask, StartWorkers
from runtime.dispatch.outcomes import Delivered, SwitchEnded

ONE, TWO, THREE, FOUR = "Seq(a,b,c)", "Par*2(a,b,c)", "Par*3(a,b,c)", "Par*4(a,b,c)"


def bound(bench: Bench) -> dict[str, int | None]:
    return {view.worker: view.group for view in bench.dispatcher.view(bench.now_s).workers}


def active(bench: Bench) -> str:
    return bench.dispatcher.view(bench.now_s).composition.name


def joined(notation: str, *workers: str, **settings: object) -> Bench:
    bench = Bench(notation, **settings)
    bench.join(*workers)
    return bench


def test_a_warm_worker_takes_part_in_the_turn_of_the_command():
    bench = joined(ONE, "w1", "w2", "w3", "w4")
    bench.admit(6)
    assert len(bench.running()) == 1
    bench.switch(FOUR)
    assert [serial for _, serial, _ in sorted(bench.running(), key=lambda task: task[1])] == [0, 1, 2, 3]
    (ended,) = bench.of(SwitchEnded)
    assert (ended.kind, ended.error, ended.from_name, ended.to_name) == (TransitionKind.RESIZE, None, ONE, FOUR)
    assert (ended.drain_actual_s, ended.migrated) == (None, 0)
    assert not bench.dispatcher.view(bench.now_s).switching
    idle = joined(ONE, "w1", "w2")
    idle.switch(TWO)
    idle.admit()
    assert idle.running() == [("w2", 0, ("a", "b", "c"))], "who joins a group has its next item"


def test_a_worker_leaves_when_its_task_is_done():
    bench = joined(FOUR, "w1", "w2", "w3", "w4")
    bench.admit(8)
    assert len(bench.running()) == 4
    bench.switch(ONE)
    assert len(bench.running()) == 4, "nothing that runs is taken back"
    assert sum(each.items for each in bench.dispatcher.view(0.0).pending["a"]) == 4, "it is in the drain estimate"
    assert sorted(bound(bench).values(), key=str) == [0, None, None, None]
    bench.finish()
    assert [item.serial for item in bench.of(Delivered)] == list(range(8))
    stayed = next(worker for worker, group in bound(bench).items() if group == 0)
    assert {each.worker for each in bench.of(SendTask)[4:]} == {stayed}


def test_idle_workers_leave_and_come_before_one_that_still_ends_its_task():
    bench = joined(FOUR, "w1", "w2", "w3", "w4", spares=0)
    bench.admit()
    ((busy, _, _),) = bench.running()
    bench.switch(ONE)
    assert [worker for worker, group in bound(bench).items() if group == 0] == [busy]
    bench = joined(FOUR, "w1", "w2", "w3", "w4", spares=0)
    bench.admit(6)
    bench.switch(ONE)
    bench.join("w0")
    bench.switch(TWO)
    assert bound(bench)["w0"] == 0


def test_growing_takes_effect_worker_by_worker_and_ends_with_the_last():
    bench = joined(ONE, "w1", "w2", spares=0)
    bench.admit(6)
    bench.switch(FOUR)
    assert bench.of(StartWorkers)[-1] == StartWorkers(2)
    assert len(bench.running()) == 2, "who is warm takes part at once"
    assert bench.dispatcher.view(bench.now_s).switching
    bench.join("w3")
    assert len(bench.running()) == 3
    assert (active(bench), bench.of(SwitchEnded)) == (ONE, [])
    bench.join("w4")
    assert len(bench.running()) == 4
    (ended,) = bench.of(SwitchEnded)
    assert (active(bench), ended.kind, ended.error) == (FOUR, TransitionKind.RESIZE, None)


@pytest.mark.parametrize(
    ("event", "sentence"),
    [
        (Tick(31.0), "its workers were not ready after 30 s"),
        (WorkerStartFailed(0.0, "out of memory"), "a worker could not be started: out of memory"),
    ],
)
@pytest.mark.parametrize("wanted", [FOUR, "Seq(a)-Par*3(b,c)"], ids=["resize", "switch"])
def test_a_change_whose_workers_do_not_come_leaves_the_old_composition_and_its_numbers(
    event: Event, sentence: str, wanted: str
):
    bench = joined(ONE, "w1", "w2", spares=0, prepare_limit_s=30.0)
    bench.switch(wanted)
    bench.handle(event)
    (ended,) = bench.of(SwitchEnded)
    assert ended.error == sentence
    assert active(bench) == ONE
    assert sorted(bound(bench).values(), key=str) == [0, None]
    bench.admit(3)
    bench.finish()
    assert [(item.serial, item.composition) for item in bench.of(Delivered)] == [(0, ONE), (1, ONE), (2, ONE)]


def test_another_name_for_the_same_moves_nothing():
    bench = joined(TWO, "w1", "w2", "w3")
    bench.admit(2)
    before, said = bound(bench), len(bench.instructions)
    renamed = Composition("twins", (Group(("a", "b", "c"), Pattern.PAR, 2),))
    bench.handle(SwitchRequested(bench.now_s, renamed))
    bench.admit()
    assert (active(bench), bound(bench), len(bench.instructions)) == ("twins", before, said)
    assert [(ended.kind, ended.error) for ended in bench.of(SwitchEnded)] == [(TransitionKind.RESIZE, None)]
    bench.finish()
    names = [item.composition for item in bench.of(Delivered)]
    assert names == [TWO, TWO, "twins"], "an item bears the name under which it was started"


def test_with_style_drain_numbers_are_changed_as_published():
    bench = joined(ONE, "w1", "w2")
    bench.admit(3)
    bench.switch(TWO, SwitchStyle.DRAIN)
    assert [serial for _, serial, _ in bench.running()] == [0], "the new composition waits until the old one is empty"
    bench.done(0)
    assert [(ended.kind, ended.drain_actual_s) for ended in bench.of(SwitchEnded)] == [(TransitionKind.SWITCH, 0.0)]


def test_a_resize_gives_way_to_a_switch_with_the_numbers_it_began_with():
    bench = joined(ONE, "w1", "w2", spares=0)
    bench.admit(6)
    bench.switch(FOUR)
    bench.switch("Seq(a)-Par*3(b,c)")
    assert bench.dispatcher.view(bench.now_s).preparing
    assert (active(bench), len(bench.running())) == (ONE, 2), "what runs is not taken back"
    bench.done(0)
    bench.done(1)
    assert len(bench.running()) == 1, "nobody else is of the composition that runs"
    bench.join("w3", "w4")
    assert active(bench) == "Seq(a)-Par*3(b,c)"
    bench.finish()
    assert [item.serial for item in bench.of(Delivered)] == list(range(6))
    assert [ended.kind for ended in bench.of(SwitchEnded)] == [TransitionKind.RESIZE, TransitionKind.SWITCH]
