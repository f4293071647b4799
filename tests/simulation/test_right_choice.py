"""The right-choice benchmark on a few of its apps: the floor below which something is broken."""

import pytest

from lab.benchmarks import right_choice
from lab.simulation.simulation import simulate


@pytest.mark.parametrize("apps", [2, pytest.param(20, marks=pytest.mark.long)])
def test_it_settles_on_the_right_composition_for_random_apps(apps: int) -> None:
    seeds = range(1000, 1000 + apps)
    outcomes = [outcome for seed in seeds for outcome in right_choice.run_case(seed, ["expected-cost"])]
    figures = right_choice.summary(outcomes, "expected-cost")
    wrong = right_choice.wrong(outcomes)
    assert figures["within one worker"] >= 0.9, wrong
    assert figures["SLO met where 10 % to spare"] == 1.0, wrong
    assert figures["not settled"] == 0.0


def test_the_truth_finds_the_cheapest_by_running_each_alone() -> None:
    case = right_choice.random_case(1003)
    truth = right_choice.truth_of(case)
    met = [name for name, slack in truth.slack.items() if slack >= 0]
    assert min(c.workers for c in case.compositions if c.name in met) == truth.fewest


def test_the_same_scenario_gives_the_same_trace() -> None:
    scenario = right_choice.random_case(1001).scenario("expected-cost", 20.0)
    first, second = simulate(scenario), simulate(scenario)
    assert first.delivered == second.delivered
    assert [m.said for m in first.moments] == [m.said for m in second.moments]


@pytest.mark.long
def test_under_a_constant_load_groups_are_not_changed_for_ever() -> None:
    """A fifth of the items take longer than the mean may be, with nothing ahead of them."""
    trace = simulate(right_choice.random_case(1003).scenario("expected-cost", 120.0))
    assert len([each for each in trace.decisions if each.at_s > 30.0]) <= 2
