"""When a runner is brought up again and when its app is given up: no thread, no clock."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.daemon.keeping.restart_policy import (
    BACK_OFF_S,
    HEALTHY_S,
    LOOK_S,
    POSTPONED_S,
    SILENT_LIMIT,
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
    Refused,
    Silent,
    Starting,
    Up,
    Upkeep,
    after,
    delay_s,
    put_off,
    upkeep,
)


def follow(condition: Condition, *events: Event) -> Condition:
    for event in events:
        condition = after(condition, event)
    return condition


def test_a_runner_is_brought_up_then_looked_at() -> None:
    starting = Starting(due_s=10.0)
    assert (upkeep(starting, 9.0), delay_s(starting, 9.0)) == (Upkeep.WAIT, 1.0)
    assert upkeep(starting, 10.0) is Upkeep.BRING_UP
    up = after(starting, CameUp(11.0))
    assert up == Up(11.0)
    assert (upkeep(up, 11.0), delay_s(up, 11.0)) == (Upkeep.LOOK, LOOK_S)


def test_each_death_waits_longer_and_the_last_is_the_end() -> None:
    condition: Condition = Starting(0.0)
    for number, wait_s in enumerate(BACK_OFF_S, 1):
        condition = follow(condition, CameUp(100.0), Died(100.0, "gone"))
        assert condition == Starting(100.0 + wait_s, Deaths(number, number, "gone"))
    condition = after(condition, Died(200.0, "gone"))
    assert condition == Failed(Deaths(5, 5, "the runner died 6 times; last: gone"))
    assert delay_s(condition, 200.0) is None


def test_a_minute_of_health_forgives_the_deaths_before_but_counts_the_restarts() -> None:
    condition = follow(Starting(0.0), Died(0.0, "a"), Died(0.0, "b"), CameUp(5.0), Died(5.0 + HEALTHY_S, "c"))
    assert condition == Starting(5.0 + HEALTHY_S, Deaths(1, 3, "c"))


def test_who_got_on_forgives_the_deaths_before_however_soon_it_dies() -> None:
    condition: Condition = Starting(0.0)
    for number in range(3 * len(BACK_OFF_S)):
        condition = follow(condition, CameUp(1.0), Answered(got_on=True), Answered(), Died(2.0, "gone"))
        assert condition == Starting(2.0, Deaths(1, number + 1, "gone"))


def test_silence_counts_in_a_row_only() -> None:
    silent = Silent(1.0, "no answer", alive=True)
    condition = follow(Up(0.0), *[silent] * (SILENT_LIMIT - 1), Answered(), *[silent] * (SILENT_LIMIT - 1))
    assert condition == Up(0.0, silent=SILENT_LIMIT - 1)
    assert isinstance(after(condition, silent), Starting)


def test_the_silence_of_the_dead_is_not_waited_for() -> None:
    assert after(Up(0.0), Silent(1.0, "gone", alive=False)) == Starting(1.0, Deaths(1, 1, "gone"))


def test_what_is_refused_is_not_tried_again() -> None:
    assert after(Starting(0.0), Refused("no such folder")) == Failed(Deaths(0, 0, "no such folder"))


def test_what_was_put_off_is_tried_for_as_long_as_it_takes_and_costs_no_attempt() -> None:
    died = after(Up(0.0), Died(1.0, "gone"))
    condition = died
    for number in range(100):
        condition = after(condition, Postponed(10.0 * number, "no room"))
        assert condition == Starting(10.0 * number + POSTPONED_S, died.deaths, "no room")
    assert put_off(condition) == "no room"
    assert put_off(after(condition, Died(2000.0, "gone"))) is None
    assert after(condition, CameUp(2000.0)) == Up(2000.0, died.deaths)


@pytest.mark.parametrize("last", [Ended(), Failed(Deaths(1, 1, "gone"))])
def test_what_is_over_stays_over(last: Condition) -> None:
    events = (CameUp(1.0), Answered(), Silent(1.0, "", True), Died(1.0, ""), Refused(""), Finished())
    assert [after(last, event) for event in events] == [last] * len(events)


TIMES = st.floats(0.0, 1e6)
EVENTS = st.one_of(
    st.builds(CameUp, TIMES),
    st.builds(Answered),
    st.builds(Silent, TIMES, st.just("silent"), st.booleans()),
    st.builds(Died, TIMES, st.just("died")),
    st.builds(Refused, st.just("refused")),
    st.builds(Finished),
)


@given(st.lists(EVENTS, max_size=60))
def test_whatever_happens_attempts_are_bounded_and_restarts_never_decrease(events: list[Event]) -> None:
    condition: Condition = Starting(0.0)
    for event in events:
        before, condition = condition, after(condition, event)
        assert condition.deaths.in_a_row <= len(BACK_OFF_S)
        assert condition.deaths.restarts - before.deaths.restarts in (0, 1)
        if isinstance(condition, Up):
            assert condition.silent < SILENT_LIMIT
        assert (delay_s(condition, 0.0) is None) == isinstance(condition, Ended | Failed)
