"""A machine's budget becomes grants: floors, priorities, apps that come, go and cannot be asked, each with a reason."""

from __future__ import annotations

from compositions.enumeration import generate
from compositions.model import Stage
from control.arbitration.machine import AWAY_S, Arbitration, MachineBudget, Terms
from control.decisions import Trigger
from profiler.budget import Budget
from profiler.slo import parse_slo
from runtime.pools.simulated_machine import Machine
from service.running.simulated.scenario import Scenario, SimulatedStage, steps
from service.running.simulated.together import simulate_together

SIX, TWO = tuple(min(1.0, units / 6) for units in range(1, 9)), tuple(min(1.0, units / 2) for units in range(1, 9))


def test_who_gains_most_gets_it_and_the_reason_says_what_one_more_would_bring() -> None:
    grants = Arbitration(MachineBudget(workers=7)).grants(0.0, {"a": SIX, "b": TWO})
    assert {app: grant.budget for app, grant in grants.items()} == {"a": Budget(workers=5), "b": Budget(workers=2)}
    assert grants["a"].reason == "the arbiter gives 5 workers: 83% of the objective, with 1 more it would gain 17%"
    assert grants["b"].reason == "the arbiter gives 2 workers: 100% of the objective, and more would not help"


def test_a_change_says_what_there_was_before() -> None:
    arbitration = Arbitration(MachineBudget(workers=8))
    arbitration.grants(0.0, {"a": TWO, "b": SIX})
    assert "2 workers instead of 6 workers" in arbitration.grants(1.0, {"a": SIX, "b": TWO})["b"].reason


def test_floors_and_priorities() -> None:
    budget = MachineBudget(cores=2.0, apps={"a": Terms(priority=5.0), "b": Terms(floor=0.5)})
    hungry = tuple(units / 64 for units in range(1, 33))
    grants = Arbitration(budget).grants(0.0, {"a": hungry, "b": hungry})
    assert {app: grant.budget.cores for app, grant in grants.items()} == {"a": 1.5, "b": 0.5}
    assert len(budget.limits()) == 32
    assert budget.limits()[-1] == Budget(cores=2.0)


def test_who_cannot_be_asked_keeps_what_it_had_for_a_while_and_who_ends_gives_all_back() -> None:
    arbitration = Arbitration(MachineBudget(workers=8))
    first = arbitration.grants(0.0, {"a": SIX, "b": TWO})
    assert arbitration.grants(AWAY_S, {"a": None, "b": TWO})["a"].budget == first["a"].budget
    assert "a" not in arbitration.grants(AWAY_S + 1, {"a": None, "b": TWO})
    assert arbitration.grants(AWAY_S + 2, {"b": TWO})["b"].budget == Budget(workers=8)
    assert Arbitration(MachineBudget(workers=8)).grants(0.0, {"vogel": None}) == {}


def test_two_managers_on_one_machine_keep_to_what_they_are_given_and_trade_when_loads_turn() -> None:
    traces = simulate_together(
        {"one": _app(60.0, 5.0), "other": _app(5.0, 60.0)}, 8, Arbitration(MachineBudget(workers=5))
    )
    pairs = list(zip(traces["one"].moments, traces["other"].moments, strict=True))
    assert max(one.workers + other.workers for one, other in pairs if one.at_s > 10) <= 5
    assert pairs[-1][1].workers > pairs[-1][0].workers
    for trace in traces.values():
        assert trace.met_share(30.0, 40.0) > 0.9
        assert any(each.trigger is Trigger.BUDGET for each in trace.decisions)
    assert any("the arbiter gives" in each.reason for each in traces["other"].decisions)


def _app(before_per_s: float, after_per_s: float) -> Scenario:
    names = ("read", "find")
    return Scenario(
        stages=tuple(SimulatedStage(name, 0.025, 0.2, 0.8) for name in names),
        compositions=tuple(generate([Stage(name) for name in names], max_workers=6, replicas=[1, 2, 3, 4, 5])),
        slo=parse_slo("throughput=input_rate"),
        rate=steps([(0.0, before_per_s), (20.0, after_per_s)]),
        duration_s=40.0,
        machine=Machine(8),
    )
