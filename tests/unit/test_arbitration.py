"""A machine's budget becomes grants: floors, priorities, apps that come, go and cannot be asked, each with a reason."""

from control.arbitration.arbiter import Bid, Reach
from control.arbitration.machine import AWAY_S, Arbitration, MachineBudget, Terms
from profiler.budget import Budget


def _bid(needs: float) -> Bid:
    """All of its objective with so many units, and with fewer in proportion."""
    return Bid(tuple(Reach(min(1.0, units / needs), f"{units} wide") for units in range(1, 9)))


SIX, TWO = _bid(6), _bid(2)


def test_who_gains_most_gets_it_and_the_reason_says_what_one_more_would_bring() -> None:
    grants = Arbitration(MachineBudget(workers=7)).grants(0.0, {"a": SIX, "b": TWO})
    assert {app: grant.budget for app, grant in grants.items()} == {"a": Budget(workers=5), "b": Budget(workers=2)}
    a, b = grants["a"], grants["b"]
    assert a.reason.startswith("the arbiter gives 5 workers: 83% of the objective, with 1 worker more it would run 6 w")
    assert (a.reached, a.more, a.reached_with_more, a.composition_with_more) == (5 / 6, Budget(workers=1), 1, "6 wide")
    assert b.reason == "the arbiter gives 2 workers: 100% of the objective, and more would not help"
    assert (b.reached, b.more) == (1, None)


def test_what_helps_only_with_two_more_is_told_so() -> None:
    steps = Bid((Reach(0.5, "1"), Reach(0.5, "1"), Reach(1.0, "3")))
    grants = Arbitration(MachineBudget(workers=3)).grants(0.0, {"a": steps, "b": _bid(1), "c": _bid(1)})
    assert "with 2 workers more it would run 3 and gain 50%" in grants["a"].reason


def test_a_change_says_what_there_was_before() -> None:
    arbitration = Arbitration(MachineBudget(workers=8))
    arbitration.grants(0.0, {"a": TWO, "b": SIX})
    assert "2 workers instead of 6 workers" in arbitration.grants(1.0, {"a": SIX, "b": TWO})["b"].reason


def test_floors_and_priorities() -> None:
    budget = MachineBudget(cores=2.0, apps={"a": Terms(priority=5.0), "b": Terms(floor=0.5)})
    hungry = Bid(tuple(Reach(units / 64, "any") for units in range(1, 33)))
    grants = Arbitration(budget).grants(0.0, {"a": hungry, "b": hungry})
    assert {app: grant.budget.cores for app, grant in grants.items()} == {"a": 1.5, "b": 0.5}
    assert len(budget.limits()) == 32
    assert budget.limits()[-1] == Budget(cores=2.0)


def test_however_small_a_budget_of_cores_is_it_is_divided() -> None:
    grants = Arbitration(MachineBudget(cores=5e-324, apps={"b": Terms(floor=0.5)})).grants(0.0, {"a": SIX, "b": TWO})
    assert grants.keys() == {"a", "b"}


def test_of_workers_and_cores_an_app_gets_the_same_part() -> None:
    grants = Arbitration(MachineBudget(cores=2.0, workers=8)).grants(0.0, {"a": SIX, "b": TWO})
    assert [grants[app].budget for app in "ab"] == [Budget(6, 1.5), Budget(2, 0.5)]


def test_who_cannot_be_asked_keeps_what_it_had_for_a_while_and_who_ends_gives_all_back() -> None:
    arbitration = Arbitration(MachineBudget(workers=8))
    first = arbitration.grants(0.0, {"a": SIX, "b": TWO})
    assert arbitration.grants(AWAY_S, {"a": None, "b": TWO})["a"].budget == first["a"].budget
    assert "a" not in arbitration.grants(AWAY_S + 1, {"a": None, "b": TWO})
    assert arbitration.grants(AWAY_S + 2, {"b": TWO})["b"].budget == Budget(workers=8)


def test_what_an_app_has_that_takes_no_part_is_not_there_for_the_others() -> None:
    arbitration, pinned = Arbitration(MachineBudget(workers=8)), Bid(None, takes_part=False, uses=Budget(workers=3))
    assert set(arbitration.grants(0.0, {"pinned": pinned, "a": SIX})) == {"a"}
    assert arbitration.grants(1.0, {"pinned": pinned, "a": SIX})["a"].budget == Budget(workers=5)
    assert arbitration.grants(2.0, {"pinned": None, "a": SIX})["a"].budget == Budget(workers=5), "away for a moment"
    taking_part = arbitration.grants(3.0, {"pinned": TWO, "a": SIX})
    assert {app: each.budget.workers for app, each in taking_part.items()} == {"pinned": 2, "a": 6}


def test_busy_cores_of_who_takes_no_part_that_go_up_and_down_move_nobody() -> None:
    arbitration, hungry = Arbitration(MachineBudget(cores=4.0)), _bid(40)
    given = []
    for turn, cores in enumerate([0.8, 1.2] * 40 + [0.5] * 62):
        pinned = Bid(None, takes_part=False, uses=Budget(workers=2, cores=cores))
        given.append(arbitration.grants(turn / 2, {"pinned": pinned, "a": hungry})["a"].budget.cores)
    assert given == [3.125] + [2.75] * 139 + [3.5] * 2, "it has what was busy at most in half a minute"


def test_who_starts_has_what_it_began_with_until_it_can_tell_and_who_switches_is_taken_at_its_word() -> None:
    arbitration, silent = Arbitration(MachineBudget(workers=8)), Bid(None, uses=Budget(workers=4))
    assert set(arbitration.grants(0.0, {"new": silent, "a": SIX})) == {"a"}
    assert arbitration.grants(0.5, {"new": silent, "a": SIX})["a"].budget == Budget(workers=4)
    assert arbitration.grants(1.0, {"new": TWO, "a": SIX})["a"].budget == Budget(workers=6)
    switching = arbitration.grants(1.5, {"new": silent, "a": SIX})
    assert {app: each.budget.workers for app, each in switching.items()} == {"new": 2, "a": 6}


def test_whoever_runs_has_one_at_least_and_what_its_smallest_composition_takes() -> None:
    full = Bid(None, takes_part=False, uses=Budget(workers=20))
    assert Arbitration(MachineBudget(workers=8)).grants(0.0, {"full": full, "a": SIX})["a"].budget == Budget(workers=1)
    wide = Bid((Reach(0.0), Reach(0.0), Reach(0.1, "three")))
    budget = MachineBudget(workers=8, apps={"a": Terms(priority=100)})
    grants = Arbitration(budget).grants(0.0, {"a": SIX, "wide": wide})
    assert grants["wide"].budget == Budget(workers=3)
