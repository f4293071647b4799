"""A worker on which items take much longer gets items when the others cannot keep up, and is the first to go."""

from collections import Counter

import pytest
from dispatcher_bench import Bench

from compositions.model import Stage
from runtime.dispatch.events import WorkerJoined
from runtime.dispatch.instructions import StopWorker

SLOW = "w2"


def with_a_slow_node() -> Bench:
    made = Bench("Par*3(a)", (Stage("a"),), spares=0, prefetch_below_s=0.0)
    for name, node in (("w1", "fast"), (SLOW, "slow"), ("w3", "fast")):
        made.handle(WorkerJoined(0.0, name, 0, node))
    return made


def play(made: Bench, every_s: float, until_s: float, slow_s: float = 0.14, works: bool = False) -> Counter[str]:
    """Admit an item every so often; each comes back when its worker is done. Return how many each worker did."""
    done, due, next_s = Counter[str](), dict[int, float](), made.now_s
    while made.now_s < until_s:
        for number, (worker, _) in made.tasks.items():
            due.setdefault(number, made.now_s + (slow_s if worker == SLOW else 0.04))
        made.now_s = min([next_s, *(due[number] for number in made.tasks)])
        if back := [number for number in made.tasks if due[number] <= made.now_s]:
            worker = made.tasks[back[0]][0]
            done[worker] += 1
            made.done(back[0], slow_s if works and worker == SLOW else 0.03)
        else:
            next_s += every_s
            if made.dispatcher.has_room:
                made.admit()
    return done


@pytest.mark.parametrize("works", [False, True], ids=["by its way", "by its work"])
def test_a_slow_node_gets_hardly_any_items_while_the_others_keep_up(works: bool) -> None:
    made = with_a_slow_node()
    play(made, 0.03, 2.0, works=works)
    later = play(made, 0.03, 22.0, works=works)
    assert later[SLOW] <= 0.03 * later.total()


def test_under_overload_the_slow_node_works_as_well() -> None:
    made = with_a_slow_node()
    play(made, 0.03, 2.0)
    later = play(made, 0.01, 22.0)
    assert later[SLOW] >= 0.9 * 20 / 0.14


def test_a_node_that_is_fast_again_gets_its_share_again() -> None:
    made = with_a_slow_node()
    play(made, 0.03, 10.0)
    play(made, 0.03, 70.0, slow_s=0.04)
    assert play(made, 0.03, 90.0, slow_s=0.04)[SLOW] > 0.1 * 20 / 0.03


def test_a_worker_with_even_times_is_slow_after_two_long_tasks() -> None:
    made = with_a_slow_node()
    play(made, 0.025, 10.0, slow_s=0.04)
    assert play(made, 0.025, 20.0, slow_s=0.45)[SLOW] <= 3


def test_an_item_waits_for_a_fast_worker_that_hangs_no_longer_than_the_slow_one_takes() -> None:
    made = with_a_slow_node()
    play(made, 0.03, 5.0)
    while made.tasks:
        made.done(min(made.tasks))
    made.admit(3)
    assert [worker for worker, *_ in made.running()] == ["w1", "w3"]
    made.tick(made.now_s + 0.25)
    assert [worker for worker, *_ in made.running()] == ["w1", SLOW, "w3"]


def test_a_slow_worker_serves_alone_when_the_fast_ones_are_lost() -> None:
    made = with_a_slow_node()
    play(made, 0.03, 5.0)
    for name in ("w1", "w3"):
        made.lose(name)
    made.admit(3)
    made.finish()
    assert made.view.queued == 0


def test_where_fewer_workers_are_wanted_the_slow_one_goes() -> None:
    made = with_a_slow_node()
    play(made, 0.03, 5.0)
    made.finish()
    made.switch("Par*2(a)")
    made.tick(1000.0)
    assert made.of(StopWorker) == [StopWorker(SLOW)]
