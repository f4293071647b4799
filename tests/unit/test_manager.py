"""The manager as a state machine: hand-written snapshots in, commands and decisions out."""

from dataclasses import replace
from typing import Any

import pytest

from compositions.model import Composition, Group, Pattern, Stage, all_sequential
from control.choices import Choices, ManagerError
from control.decisions import CallOff, Decision, Grant, Mode, NoChange, ResetWindow, State, SwitchTo, Trigger
from control.manager import Manager, TickResult
from control.objectives import objective_of
from control.settings import Settings
from control.strategies import DEFAULT, StrategyError, make_strategy
from profiler.budget import Budget
from profiler.slo import Slo, SloStatus
from profiler.snapshot import InputNow, Snapshot
from service.schemas.requests import StartRequest
from tests.support.figures import NOTHING_SEEN, latency, profile

STAGES = (Stage("a"), Stage("b"))
ONE = replace(all_sequential(STAGES), name="one")
WIDE = Composition("wide", (Group(("a",)), Group(("b",), Pattern.PAR, 2)))
WIDER = Composition("wider", (Group(("a",)), Group(("b",), Pattern.PAR, 4)))
MERGED = Composition("merged", (Group(("a", "b"), Pattern.PAR, 3),))
RATE = Slo("throughput", "input_rate")


def snapshot(
    now_s: float, composition: str = "one", rate: float = 15.0, since_s: float = 0.0, **more: object
) -> Snapshot:
    """A 100 ms and 10 ms pipeline that keeps up with 10 items/s, or with 20 where b is doubled."""
    capacity, done = {"one": 10.0, "wide": 20.0, "wider": 40.0, "merged": 27.0}[composition], int(rate * now_s)
    keeps_up = rate <= capacity
    values: dict[str, Any] = {
        "now_s": now_s,
        "composition": composition,
        "stable_since_s": since_s,
        "window_start_s": max(since_s, now_s - 10),
        "input_rate_per_s": rate,
        "throughput_per_s": min(rate, capacity),
        "delivered": int(min(rate, capacity) * min(10.0, now_s - since_s)),
        "latency": latency(0.12 if keeps_up else 3.0),
        "inside": latency(0.12 if keeps_up else 0.4),
        "queued": 0 if keeps_up else 32,
        "queued_change_per_s": 0.0,
        "in_flight": 2,
        "stages": tuple(profile(name, s, done=done, worked_s=done * s) for name, s in (("a", 0.01), ("b", 0.1))),
        "input": InputNow(arrived=done, set_per_s=rate),
        "cores": 8,
        "workers_alive": 8,
    }
    return replace(NOTHING_SEEN, **{**values, **more})


def manager(
    strategy: str = "expected-cost", slo: Slo | None = RATE, mode: Mode = Mode.AUTO,
    settings: Settings | None = None, compositions: tuple[Composition, ...] = (ONE, WIDE, WIDER), rate: float = 15.0,
) -> Manager:  # fmt: skip
    """Of an app that has run for twenty seconds, in which nobody was asked to decide."""
    made = make_strategy(strategy)
    for turn in range(80):
        made.observe(snapshot(turn / 4, rate=rate), None if slo is None else objective_of(slo), STAGES)
    return Manager(settings or Settings(), made, Choices(STAGES, compositions, ONE), mode, slo)


@pytest.fixture
def target() -> Manager:
    return manager()


def tick(target: Manager, shot: Snapshot) -> TickResult:
    return target.tick(shot.now_s, shot)


def reason(result: TickResult) -> str:
    assert isinstance(result.decision, NoChange)
    return result.decision.reason


def decided(result: TickResult) -> Decision:
    assert isinstance(result.decision, Decision)
    return result.decision


def decisions(results: list[TickResult]) -> list[Decision]:
    return [each.decision for each in results if isinstance(each.decision, Decision)]


def run(target: Manager, from_s: float, to_s: float, composition: str = "one", **more: object) -> list[TickResult]:
    """Ticks four times a second with the same kind of snapshot."""
    count = int((to_s - from_s) * 4)
    return [tick(target, snapshot(from_s + k / 4, composition, **more)) for k in range(count)]  # type: ignore[arg-type]


def commands(results: list[TickResult]) -> list[str]:
    return [c.composition.name for r in results for c in r.commands if isinstance(c, SwitchTo)]


def test_a_profile_comes_first_and_what_is_missing_is_named() -> None:
    for strategy, missing in (
        ("vogel", "b has 0 of 10 needed timings"),
        ("expected-cost", "a stage has only 0 timings"),
    ):
        fresh = Manager(Settings(), make_strategy(strategy), Choices(STAGES, (ONE, WIDE), ONE), Mode.AUTO, RATE)
        result = tick(fresh, snapshot(5, stages=(profile("a", 0.01),)))
        assert result.state is State.PROFILING
        assert reason(result).endswith(f": {missing}")


def test_without_slo_nothing_is_done() -> None:
    result = tick(manager(slo=None), snapshot(20))
    assert (result.state, result.slo_status, result.commands) == (State.STABLE, SloStatus.NONE, ())
    assert reason(result) == "no SLO set"


def test_a_missed_slo_leads_to_a_switch_a_wait_and_a_decision(target: Manager) -> None:
    asked = tick(target, snapshot(20))
    assert asked.commands == (SwitchTo(WIDE),)
    assert asked.state is State.SWITCHING
    waiting = tick(target, snapshot(20.25, switching=True))
    assert (waiting.commands, reason(waiting)) == ((), "switching to wide")
    not_begun = tick(target, snapshot(20.5))
    assert reason(not_begun) == "switching to wide"
    done = tick(target, snapshot(21, "wide", since_s=20.9))
    assert done.state is State.STABLE
    decision = decided(done)
    assert (decision.trigger, decision.from_name, decision.to_name) == (Trigger.START, "one", "wide")
    assert (decision.duration_s, decision.acted) == (1, True)
    assert {c.name for c in decision.candidates if c.reason} == {"one", "wide", "wider"}


def test_the_outcome_compares_prediction_and_measurement_once(target: Manager) -> None:
    tick(target, snapshot(20))
    tick(target, snapshot(21, "wide", since_s=20.9))
    assert target.hindsights() == ()
    run(target, 21.25, 33, "wide", since_s=20.9)
    (decision,) = target.hindsights()
    assert "predicted up to 15 items/s" in decision.outcome
    assert "measured 15 items/s" in decision.outcome
    assert target.hindsights() == ()


def test_a_failed_switch_leaves_the_old_one_and_the_next_candidate_is_taken(target: Manager) -> None:
    tick(target, snapshot(20))
    target.switch_failed("its workers were not ready after 60 s")
    result = tick(target, snapshot(21))
    assert result.commands == (SwitchTo(WIDER),)
    rejected = {c.name: c.reason for c in decided(tick(target, snapshot(22, "wider", since_s=21.9))).candidates}
    assert rejected["wide"] == "the switch failed: its workers were not ready after 60 s"


def test_a_switch_that_never_ends_is_given_up() -> None:
    assert commands(run(manager(), 20, 142))[:2] == ["wide", "wider"]


def test_observe_says_what_it_would_do_and_does_nothing() -> None:
    target = manager(mode=Mode.OBSERVE)
    results = run(target, 20, 60)
    (decision,) = decisions(results)
    assert (commands(results), decision.acted, decision.to_name) == ([], False, "wide")
    assert "would choose wide" in decision.reason


def test_a_pinned_composition_is_switched_to_and_kept(target: Manager) -> None:
    target.set_mode(Mode.PINNED, "wider")
    assert tick(target, snapshot(20)).commands == (SwitchTo(WIDER),)
    assert decided(tick(target, snapshot(21, "wider", since_s=20.9))).trigger is Trigger.MANUAL
    results = run(target, 21.25, 60, "wider", rate=60.0)
    assert commands(results) == []
    assert results[-1].slo_status is SloStatus.VIOLATED


def test_a_pinned_composition_that_cannot_be_switched_to_is_not_asked_for_again(target: Manager) -> None:
    target.set_mode(Mode.PINNED, "wider")
    tick(target, snapshot(20))
    target.switch_failed("no memory")
    results = run(target, 20.25, 30)
    assert reason(results[0]) == "the switch to wider failed: no memory"
    assert commands(results) == []


CALLED_OFF = "the switch to wide was cancelled before all its workers had started"


def switching() -> Manager:
    """A manager that has just asked for a switch to ``wide``."""
    target = manager()
    assert tick(target, snapshot(20)).commands == (SwitchTo(WIDE),)
    return target


def test_what_is_pinned_while_a_switch_is_under_way_is_done_when_that_has_failed() -> None:
    target = switching()
    target.set_mode(Mode.PINNED, "wider")
    target.switch_failed("no memory")
    assert commands(run(target, 20.25, 30)) == ["wider"]


def test_a_switch_that_waits_for_workers_is_called_off_for_a_newer_request_and_the_decision_says_so() -> None:
    target = switching()
    target.set_mode(Mode.PINNED, "wider")
    overtaken = tick(target, snapshot(20.25, switching=True))
    assert overtaken.commands == (CallOff("the mode was set to pinned"),)
    target.switch_failed("called off", called_off=True)
    off = tick(target, snapshot(20.5))
    assert (off.commands, reason(off)) == ((), f"{CALLED_OFF}: the mode was set to pinned")
    assert tick(target, snapshot(20.75)).commands == (SwitchTo(WIDER),)
    done = decided(tick(target, snapshot(21, "wider", since_s=20.9)))
    assert done.reason == f"requested by hand; {CALLED_OFF}; wider was pinned"


def test_a_new_objective_calls_off_what_waits_and_is_answered_with_a_decision_of_its_own() -> None:
    target = switching()
    target.set_slo(RATE)
    assert tick(target, snapshot(20.25, switching=True)).commands == (CallOff("the SLO was set"),)
    target.switch_failed("called off", called_off=True)
    tick(target, snapshot(20.5))
    assert tick(target, snapshot(20.75)).commands == (SwitchTo(WIDE),), "as if it had not been called off"
    assert CALLED_OFF in decided(tick(target, snapshot(21, "wide", since_s=20.9))).reason


def test_who_pins_what_a_switch_goes_to_lets_it_come() -> None:
    target = switching()
    target.set_mode(Mode.PINNED, "wide")
    assert tick(target, snapshot(20.25, switching=True)).commands == ()
    assert commands(run(target, 20.5, 23, switching=True)) == []


def test_who_pins_what_runs_has_a_switch_called_off_and_nothing_else() -> None:
    target = switching()
    target.set_mode(Mode.PINNED, "one")
    assert tick(target, snapshot(20.25, switching=True)).commands == (CallOff("the mode was set to pinned"),)
    target.switch_failed("called off", called_off=True)
    tick(target, snapshot(20.4))
    told = [reason(tick(target, snapshot(at_s))) for at_s in (20.5, 20.75)]
    assert told == [f"pinned to one; {CALLED_OFF}", "pinned to one"]


def test_a_trial_that_a_request_overtakes_is_no_trial_any_more() -> None:
    target = manager("vogel")
    target.set_compositions((ONE, WIDE, MERGED))
    assert tick(target, snapshot(20)).state is State.SWITCHING
    assert tick(target, snapshot(21, "wide", since_s=20.9)).state is State.TRIAL
    target.set_slo(Slo("throughput", "input_rate", 0.1))
    assert tick(target, snapshot(21.25, "wide", since_s=20.9)).state is State.STABLE


def test_the_unknown_cannot_be_pinned_and_a_composition_goes_with_pinned_only() -> None:
    with pytest.raises(ManagerError, match="unknown composition 'narrow'; there are one, wide, wider"):
        manager().set_mode(Mode.PINNED, "narrow")
    with pytest.raises(ManagerError, match="mode auto accepts no composition"):
        manager().set_mode(Mode.AUTO, "wide")


def test_infeasible_is_said_once_and_looked_at_again_when_something_changes() -> None:
    target = manager(rate=100.0)
    run(target, 20, 20.25, rate=100.0)
    first = run(target, 21, 60, "wider", since_s=20.9, rate=100.0)
    assert [each.infeasible for each in decisions(first)] == [True]
    assert commands(first) == []
    assert first[-1].slo_status is SloStatus.INFEASIBLE
    why = "no composition with at most 5 workers is expected to meet the objective: the items need 11 cores"
    assert why in reason(first[-1])
    widest = Composition("widest", (Group(("a", "b"), Pattern.PAR, 30),))
    target.set_compositions((ONE, WIDER, widest))
    again = tick(target, snapshot(61, "wider", since_s=20.9, rate=100.0, cores=64))
    assert again.commands == (SwitchTo(widest),)


def test_the_published_look_again_at_each_check_where_nothing_helped() -> None:
    """Step 6 of Vogel et al.: steps 3 to 5 are repeated while the check, every ten seconds, finds the objective missed;
    here with trials of a second each and a pause of two after a decision."""
    target = manager("pdp21", compositions=(ONE, WIDE), settings=Settings().overridden({"pdp21_trial_s": 1}))
    active, since_s, found = "one", 20.0, list[tuple[float, str]]()
    for turn in range(160):
        result = tick(target, snapshot(20 + turn / 4, active, rate=100.0, since_s=since_s))
        for name in commands([result]):
            active, since_s = name, 20 + turn / 4
            found.append((since_s, name))
    assert found == [(22, "wide"), (33, "one"), (34, "wide"), (45, "one"), (46, "wide"), (57, "one"), (58, "wide")]


def test_a_lost_worker_is_no_reason_for_a_decision_until_another_had_time_to_start() -> None:
    target = manager("vogel")
    run(target, 20, 30, rate=9.0)
    target.workers_lost(30.0, "killed")
    results = run(target, 30, 33, rate=9.0, throughput_per_s=5.0, queued=30)
    assert commands(results) == []
    assert "a worker was lost (killed)" in reason(results[0])


def test_vogel_measures_anew_when_the_rate_rises() -> None:
    target = manager("vogel")
    run(target, 20, 30, rate=9.0)
    results = run(target, 30, 33, rate=15.0)
    assert ResetWindow() in [c for r in results for c in r.commands]
    assert commands(results) == ["wide"]


def test_static_never_moves() -> None:
    results = run(manager("static"), 20, 80)
    assert commands(results) == []
    assert results[-1].slo_status is SloStatus.VIOLATED


def test_an_unknown_strategy_is_refused_with_those_there_are() -> None:
    with pytest.raises(StrategyError, match="unknown strategy 'best'; there are expected-cost, vogel, pdp21, static"):
        make_strategy("best")


def test_the_name_of_the_former_default_means_the_default() -> None:
    assert make_strategy("model").name == DEFAULT
    assert StartRequest.model_validate({"strategy": "model"}).strategy == DEFAULT


def grant(workers: int) -> Grant:
    return Grant(Budget(workers=workers), Budget(workers=8), f"the arbiter gives {workers} workers")


def test_every_change_of_a_grant_is_told_as_a_decision_once_whatever_comes_of_it(target: Manager) -> None:
    target.grant(grant(2))
    results = run(target, 20, 24)
    target.grant(grant(3))
    results += run(target, 24, 24.5) + run(target, 24.5, 30, "wide", since_s=24.4)
    for second, given in enumerate((grant(5), grant(5), None, grant(2)), start=30):
        target.grant(given)
        results += run(target, second, second + 1, "wide", since_s=24.4)
    told = decisions(results + run(target, 34, 35, "one", since_s=33.6))
    assert [(each.trigger, each.to_name, each.reason.split(";")[0]) for each in told] == [
        (Trigger.START, "one", "the app started"),
        (Trigger.BUDGET, "wide", "the arbiter gives 3 workers"),
        (Trigger.BUDGET, "wide", "the arbiter gives 5 workers"),
        (Trigger.BUDGET, "wide", "no budget limits the app any more"),
        (Trigger.BUDGET, "one", "the arbiter gives 2 workers"),
    ]
    assert "the arbiter gives 2 workers" in told[0].reason
    assert "; wide stays, as it has the lowest expected cost of workers, late items and changes: " in told[2].reason


def test_a_share_that_was_lifted_before_it_was_told_is_not_told_later(target: Manager) -> None:
    run(target, 20, 24.5)
    run(target, 24.5, 30, "wide", since_s=24.4)
    target.grant(grant(5))
    target.set_mode(Mode.PINNED)
    target.grant(None)
    target.set_mode(Mode.AUTO)
    told = decisions(run(target, 30, 36, "wide", since_s=24.4))
    assert Trigger.BUDGET not in [each.trigger for each in told]


def test_a_share_that_is_taken_back_is_given_at_once_though_nothing_is_judged_after_a_switch() -> None:
    target, known = manager(), InputNow(set_per_s=15.0)
    tick(target, snapshot(20, input=known))
    assert decided(tick(target, snapshot(21, "wide", since_s=20.9, input=known)))
    target.grant(grant(2))
    assert tick(target, snapshot(21.25, "wide", since_s=20.9, input=known)).commands == (SwitchTo(ONE),)


def test_what_waits_for_more_workers_than_the_new_share_has_is_called_off() -> None:
    target = switching()
    target.grant(grant(3))
    assert tick(target, snapshot(20.25, switching=True)).commands == (), "it has room for all of them"
    target.grant(grant(2))
    off = tick(target, snapshot(20.5, switching=True))
    assert off.commands == (CallOff("the arbiter gives 2 workers"),)
    target.switch_failed("called off", called_off=True)
    assert reason(tick(target, snapshot(20.75))) == f"{CALLED_OFF}: the arbiter gives 2 workers"
    results = run(target, 21, 25)
    assert commands(results) == []
    assert CALLED_OFF in decisions(results)[0].reason


def test_a_bid_says_what_would_be_run_with_how_much(target: Manager) -> None:
    limits = tuple(Budget(workers=count) for count in range(1, 5))
    assert target.bid(limits).reach is None, "nothing was seen yet"
    tick(target, snapshot(20))
    bid = target.bid(limits)
    assert bid.takes_part
    assert [each.composition for each in bid.reach] == [None, "one", "wide", "wide"]
    assert [each.met for each in bid.reach] == [0, pytest.approx(0.70, abs=0.01), 1, 1]


@pytest.mark.parametrize("other", [manager("vogel"), manager(mode=Mode.OBSERVE), manager(mode=Mode.PINNED)])
def test_who_takes_no_part_says_what_it_has(other: Manager) -> None:
    tick(other, snapshot(20))
    bid = other.bid((Budget(workers=1),))
    assert (bid.reach, bid.takes_part, bid.uses) == (None, False, Budget(workers=2))
