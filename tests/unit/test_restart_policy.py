"""When a runner is brought up again and when its app is given up: no thread, no clock. The order of starts, and how
long workers of each class take to start."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from watchdog_bench import Bench

from control.strategies.start_times import StartTimes
from runtime.pools.ray.pool import BEGIN_TIMES, StartLimits
from service.daemon.supervision import restart_policy as policy
from service.daemon.supervision.restart_policy import Answered, Died, Ended, Failed, Finished, Refused, Starting, Up
from service.daemon.supervision.runner_slot import HOLD_S, StartQueue
from service.runner.rpc.vital import Vital

LEASE_S = 30.0
TIMES = st.floats(0.0, 1e6)
LIGHT, MODEL = (), ("model",)


def follow(condition: policy.Condition, *events: policy.Event) -> policy.Condition:
    for event in events:
        condition = policy.after(condition, event)
    return condition


def silent(heard_s: float, now_s: float, vital: Vital) -> policy.Silent:
    return policy.Silent(heard_s, now_s, "no answer", vital, LEASE_S)


def test_a_silent_runner_is_left_alone_until_its_lease_is_over() -> None:
    condition = follow(Up(0.0), silent(10.0, 15.0, Vital.CUT_OFF), silent(20.0, 39.0, Vital.REACHABLE))
    assert condition == Up(0.0, heard_s=10.0, silent=Vital.REACHABLE)
    assert policy.after(condition, Answered()) == Up(0.0), "a lease begins anew with each answer"
    hung = policy.after(condition, silent(38.0, 40.0, Vital.REACHABLE))
    why = "the runner is hung: it has answered no request for 30 s (lease_s); no answer"
    assert hung == Starting(40.0, policy.Deaths(1, 1, why))
    cut_off = policy.after(condition, silent(38.0, 40.0, Vital.CUT_OFF))
    assert cut_off.deaths.reason == "the runner is cut off: no message came from it for 30 s (lease_s); no answer"


def test_a_run_that_owes_something_is_never_given_up() -> None:
    events = [Refused(0.0, "no such stage", owes=True), Died(0.0, "gone", owes=True)] * 10
    condition = follow(Up(0.0), *events)
    assert (condition.due_s, condition.deaths.restarts) == (policy.OWING_S[-1], 20)
    assert policy.fails_to_start(condition)


def test_a_start_waits_for_its_turn_without_losing_what_is_known() -> None:
    put = policy.after(Starting(0.0), policy.Postponed(1.0, "no room"))
    assert policy.waits_for(policy.after(put, policy.Queued(6.0, 3))) == "no room"
    queued = policy.after(Starting(0.0), policy.Queued(6.0, 3))
    assert policy.waits_for(queued) == "3 apps start first"
    assert policy.waits_for(policy.after(queued, policy.Queued(7.0, 1))) == "1 app starts first"
    assert policy.delay_s(queued, 6.0) == policy.TURN_S
    assert not policy.fails_to_start(queued)


def test_what_is_being_stopped_can_only_end() -> None:
    stopping = policy.after(Up(0.0), policy.StopAsked())
    events = (Answered(), silent(0.0, 99.0, Vital.DEAD), Died(1.0, ""), Refused(1.0, ""), policy.Postponed(1.0, ""))
    assert follow(stopping, *events) == stopping
    assert policy.delay_s(stopping, 0.0) is None
    assert policy.after(stopping, Finished()) == Ended()


@pytest.mark.parametrize("last", [Ended(), Failed(policy.Deaths(1, 1, "gone"))])
def test_what_is_over_stays_over(last: policy.Condition) -> None:
    events = (policy.CameUp(1.0), Answered(), silent(0.0, 1.0, Vital.DEAD), Died(1.0, ""), Refused(1.0, ""), Finished())
    assert [policy.after(last, event) for event in events] == [last] * len(events)


EVENTS = st.one_of(
    *(st.builds(policy.CameUp, TIMES), st.builds(Answered), st.builds(silent, TIMES, TIMES, st.sampled_from(Vital))),
    *(st.builds(kind, TIMES, st.just("why")) for kind in (Died, Refused)),
    st.builds(Finished),
)


@given(st.lists(EVENTS, max_size=60))
def test_whatever_happens_attempts_are_bounded_and_restarts_never_decrease(events: list[policy.Event]) -> None:
    condition: policy.Condition = Starting(0.0)
    for event in events:
        before, condition = condition, policy.after(condition, event)
        assert condition.deaths.in_a_row <= len(policy.BACK_OFF_S)
        assert condition.deaths.restarts - before.deaths.restarts in (0, 1)
        if isinstance(condition, Up) and condition.heard_s is not None:
            assert condition.silent in (Vital.REACHABLE, Vital.CUT_OFF)
        assert (policy.delay_s(condition, 0.0) is None) == isinstance(condition, Ended | Failed)


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
    assert "Ray started no process for a worker in 50 s" in why
    limits.forget("w2")
    ((worker, why),) = limits.late(55.0)
    assert worker == "w1"
    assert "was not ready 10 s after its process began" in why
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
    assert policy.waits_for(benches[1].watchdog.condition) == "1 app starts first"
    benches[0].step(2.0)  # it is up
    benches[1].step(2.0)
    assert len(benches[1].host.runners) == 1


def known() -> StartTimes:
    """Times of both classes, measured one policy.after the other: 20 s and 2."""
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
    assert times.keeps(121.0, fewer, present) is None, "20 s policy.after it was needed last"
