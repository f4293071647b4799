"""When a runner is brought up again and when its app is given up: no thread, no clock."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.daemon.supervision.restart_policy import (
    BACK_OFF_S,
    OWING_S,
    TURN_S,
    Answered,
    CameUp,
    Condition,
    Deaths,
    Died,
    Ended,
    Event,
    Failed,
    Finished,
    Postponed,
    Queued,
    Refused,
    Silent,
    Starting,
    StopAsked,
    Up,
    after,
    delay_s,
    fails_to_start,
    waits_for,
)
from service.runner.rpc.vital import Vital

LEASE_S = 30.0


def follow(condition: Condition, *events: Event) -> Condition:
    for event in events:
        condition = after(condition, event)
    return condition


def silent(heard_s: float, now_s: float, vital: Vital) -> Silent:
    return Silent(heard_s, now_s, "no answer", vital, LEASE_S)


def test_a_silent_runner_is_left_alone_until_its_lease_is_over() -> None:
    condition = follow(Up(0.0), silent(10.0, 15.0, Vital.CUT_OFF), silent(20.0, 39.0, Vital.REACHABLE))
    assert condition == Up(0.0, heard_s=10.0, silent=Vital.REACHABLE)
    assert after(condition, Answered()) == Up(0.0), "a lease begins anew with each answer"
    hung = after(condition, silent(38.0, 40.0, Vital.REACHABLE))
    why = "the runner is hung: it has answered nothing for 30 s (lease_s); no answer"
    assert hung == Starting(40.0, Deaths(1, 1, why))
    cut_off = after(condition, silent(38.0, 40.0, Vital.CUT_OFF))
    assert cut_off.deaths.reason == "the runner is cut off: nothing was heard of it for 30 s (lease_s); no answer"


def test_a_run_that_owes_something_is_never_given_up() -> None:
    events = [Refused(0.0, "no such stage", owes=True), Died(0.0, "gone", owes=True)] * 10
    condition = follow(Up(0.0), *events)
    assert (condition.due_s, condition.deaths.restarts) == (OWING_S[-1], 20)
    assert fails_to_start(condition)


def test_a_start_waits_for_its_turn_without_losing_what_is_known() -> None:
    put = after(Starting(0.0), Postponed(1.0, "no room"))
    assert waits_for(after(put, Queued(6.0, 3))) == "no room"
    queued = after(Starting(0.0), Queued(6.0, 3))
    assert (waits_for(queued), waits_for(after(queued, Queued(7.0, 1)))) == ("3 apps start first", "1 app starts first")
    assert delay_s(queued, 6.0) == TURN_S
    assert not fails_to_start(queued)


def test_what_is_being_stopped_can_only_end() -> None:
    stopping = after(Up(0.0), StopAsked())
    events = (Answered(), silent(0.0, 99.0, Vital.DEAD), Died(1.0, ""), Refused(1.0, ""), Postponed(1.0, ""))
    assert follow(stopping, *events) == stopping
    assert delay_s(stopping, 0.0) is None
    assert after(stopping, Finished()) == Ended()


@pytest.mark.parametrize("last", [Ended(), Failed(Deaths(1, 1, "gone"))])
def test_what_is_over_stays_over(last: Condition) -> None:
    events = (CameUp(1.0), Answered(), silent(0.0, 1.0, Vital.DEAD), Died(1.0, ""), Refused(1.0, ""), Finished())
    assert [after(last, event) for event in events] == [last] * len(events)


TIMES = st.floats(0.0, 1e6)
EVENTS = st.one_of(
    *(st.builds(CameUp, TIMES), st.builds(Answered), st.builds(silent, TIMES, TIMES, st.sampled_from(Vital))),
    *(st.builds(kind, TIMES, st.just("why")) for kind in (Died, Refused)),
    st.builds(Finished),
)


@given(st.lists(EVENTS, max_size=60))
def test_whatever_happens_attempts_are_bounded_and_restarts_never_decrease(events: list[Event]) -> None:
    condition: Condition = Starting(0.0)
    for event in events:
        before, condition = condition, after(condition, event)
        assert condition.deaths.in_a_row <= len(BACK_OFF_S)
        assert condition.deaths.restarts - before.deaths.restarts in (0, 1)
        if isinstance(condition, Up) and condition.heard_s is not None:
            assert condition.silent in (Vital.REACHABLE, Vital.CUT_OFF)
        assert (delay_s(condition, 0.0) is None) == isinstance(condition, Ended | Failed)
