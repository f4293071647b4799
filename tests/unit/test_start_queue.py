"""The order of starts, and how long workers of each class take to start."""

from collections import Counter

from watchdog_bench import Bench

from control.strategies.start_times import StartTimes
from runtime.pools.ray.pool import BEGIN_TIMES, StartLimits
from service.daemon.supervision.restart_policy import waits_for
from service.daemon.supervision.runner_slot import HOLD_S, StartQueue


def test_a_few_start_at_a_time_in_the_order_in_which_they_asked() -> None:
    queue = StartQueue(2, lambda: 0.0)
    assert [queue.ahead(app) for app in "abcde"] == [0, 0, 2, 3, 4]
    assert [queue.ahead(app) for app in "edcba"] == [4, 3, 2, 0, 0], "who asks again keeps its place"
    queue.leave("a")
    assert [queue.ahead(app) for app in "edc"] == [3, 2, 0]
    queue.leave("d")
    queue.leave("b")
    assert queue.ahead("e") == 0


def test_a_start_that_takes_long_counts_no_more() -> None:
    now_s = 0.0
    queue = StartQueue(1, lambda: now_s)
    assert (queue.ahead("slow"), queue.ahead("next")) == (0, 1)
    now_s = HOLD_S
    assert queue.ahead("next") == 0
    assert queue.ahead("slow") == 0, "it goes on itself"


def test_the_limit_of_a_start_counts_from_the_beginning_of_the_process() -> None:
    limits = StartLimits(10.0, lambda: None)
    limits.ask(["w1", "w2"], 0.0)
    assert limits.next_s == 10.0 * BEGIN_TIMES
    limits.began("w1")
    limits.note(45.0)
    ((worker, why),) = limits.late(54.9)
    assert (worker, limits.next_s) == ("w2", 50.0)
    assert "Ray began no process for a worker in 50 s" in why
    limits.forget("w2")
    ((worker, why),) = limits.late(55.0)
    assert worker == "w1"
    assert "was not ready within 10 s of its process's beginning" in why
    limits.forget("w1")
    limits.began("w1")
    limits.note(60.0)
    assert limits.late(1e9) == []


def test_apps_that_a_service_brings_back_queue_as_those_that_are_started() -> None:
    queue = StartQueue(1, lambda: 0.0)
    benches = [Bench(attach=True, queue=queue, name=name) for name in ("one", "two")]
    for bench in benches:
        bench.step()
    assert [len(bench.host.runners) for bench in benches] == [1, 0]
    assert waits_for(benches[1].watchdog.condition) == "1 app starts first"
    benches[0].step(2.0)  # it is up
    benches[1].step(2.0)
    assert len(benches[1].host.runners) == 1


LIGHT, MODEL = (), ("model",)


def known() -> StartTimes:
    """Times of both classes, measured one after the other: 20 s and 2."""
    times = StartTimes()
    times.ask(0.0, Counter({LIGHT: 1, MODEL: 2}), Counter({LIGHT: 1, MODEL: 1}), 2)
    times.note(20.0, 3)
    times.ask(30.0, Counter({LIGHT: 2, MODEL: 2}), Counter({LIGHT: 1, MODEL: 2}), 3)
    times.note(32.0, 4)
    return times


def test_the_slowest_of_the_classes_in_question_counts() -> None:
    assert known().slowest_s([LIGHT, MODEL], 1.5) == 20.0
    assert known().slowest_s([LIGHT], 1.5) == 2.0
    assert StartTimes().slowest_s([LIGHT], 1.5) == 1.5


def test_the_start_of_an_app_counts_where_its_workers_load_something() -> None:
    light, heavy = StartTimes(), StartTimes()
    light.begin(0.0, Counter({LIGHT: 3}), 0)
    heavy.begin(0.0, Counter({LIGHT: 2, MODEL: 1}), 2)
    for times in (light, heavy):
        times.note(21.0, 3)
    assert light.slowest_s([LIGHT], 1.5) == 1.5
    assert heavy.slowest_s([MODEL], 1.5) == 21.0


def test_a_loaded_worker_is_given_back_when_it_was_not_needed_for_as_long_as_its_load_takes() -> None:
    times, present, fewer = known(), Counter({LIGHT: 2, MODEL: 3}), Counter({LIGHT: 2, MODEL: 1})
    assert times.keeps(100.0, present, present) is None
    assert times.keeps(110.0, fewer, present) == "workers that have loaded model are kept, as it takes 20 s"
    assert times.keeps(119.0, fewer, present) is not None
    assert times.keeps(121.0, fewer, present) is None, "20 s after it was needed last"
