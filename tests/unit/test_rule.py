"""The rule of expected cost: waits, price, groups and choice."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control.rule.grouping import Grouping, StageFacts, cheapest, grouping_cost
from control.rule.plans import Choice, Costing, Goal, Listing, Now, Plan, Seen
from control.rule.price import Price
from control.rule.queueing import GroupNow, ItemTime, waits
from control.rule.rule import Rule
from control.rule.settings import RuleSettings
from control.rule.stream import Futures

TURN_S = 0.25
EACH_S = (0.1, 0.3)
STAGES = (StageFacts("a"), StageFacts("b"))
APART, MERGED = ((0,), (1,)), ((0, 1),)
GOALS = (Goal(1.6, 0.95),)
LONG = Goal(40.0, 0.95)


def test_an_item_that_takes_too_long_keeps_those_behind_it() -> None:
    drawn = np.random.default_rng(1).lognormal(-2.0, 1.0, 200_000)
    due_s = np.arange(len(drawn)) / 20.0
    out_s = np.maximum.accumulate(due_s + drawn)
    late = float((out_s - due_s > 1.5).mean())
    item = ItemTime.of(float(drawn.mean()), float(drawn.std() / drawn.mean()))
    assert item.beyond(np.array([1.5]), 20.0)[0] == pytest.approx(late, rel=0.25)
    limits_s = np.array([0.2, 0.5, 1.5])
    assert item.beyond(limits_s) == pytest.approx([(drawn > limit_s).mean() for limit_s in limits_s], abs=0.01)


def test_one_worker_makes_items_wait_as_lindley_says() -> None:
    work_s = np.array([3.0, 0.0, 2.0, 0.5, 0.0])
    futures = Futures(1.0, work_s[None], np.ones((1, 5, 1)), np.ones(1))
    wait_s, left_s = waits(GroupNow((0,), 1, 1, 0.0, 0.0), np.array([1.0]), futures, (1.0, 0.0), 0.0)
    expected, ahead = [], 0.0
    for came in work_s:
        ahead = max(0.0, ahead + came - 1.0)
        expected.append(ahead)
    assert wait_s[0, 0] == pytest.approx(expected)
    assert left_s[0, 0] == pytest.approx(expected[-1])


@settings(deadline=None)
@given(st.lists(st.floats(0, 20), min_size=3, max_size=12), st.floats(0, 40), st.floats(0, 3))
def test_more_workers_never_make_anybody_wait_longer(came: list[float], waiting: float, start_s: float) -> None:
    futures = Futures(0.5, np.array([came]), np.full((1, len(came), 1), 0.3), np.array([0.3]))
    now = GroupNow((0,), 2, 2, waiting, 0.0)
    _, left_s = waits(now, np.arange(1.0, 7.0), futures, (0.3, 0.0), start_s)
    assert all(more <= fewer + 1e-9 for fewer, more in pairwise(left_s[:, 0]))


def test_groups_made_anew_are_no_better_than_the_same_ones_that_are_there() -> None:
    futures, replicas = Futures(0.5, np.full((1, 8), 2.0), np.full((1, 8, 1), 0.3), np.array([0.3])), np.array([2.0])
    there, _ = waits(GroupNow((0,), 2, 2, 9.0, 0.0), replicas, futures, (0.3, 0.0), 1.0)
    anew, _ = waits(GroupNow((0,), 0, 0, 9.0, 0.0, anew=True), replicas, futures, (0.3, 0.0), 1.0)
    assert anew == pytest.approx(there)


def test_a_mean_is_kept_as_long_as_items_wait_no_longer_than_it_leaves() -> None:
    goal, item = Goal(0.5, 0.8, of_mean=True), ItemTime.of(0.4, 0.2)
    assert item.ordered_s(0.0) == pytest.approx(0.4, rel=0.01)
    late = item.late(goal, np.array([0.0, 0.05, 0.1, 0.2]), 0.0)
    assert late == pytest.approx([0.0, 0.1, 0.2, 0.4], rel=0.05), "at 0.5 s on average, as much as may be"
    assert item.beyond(np.array([0.5]))[0] > 0.1, "items that take longer by themselves do not count"


def test_of_a_mean_items_that_are_faster_make_up_for_slower_ones() -> None:
    goal, item, price = Goal(0.5, 0.8, of_mean=True), ItemTime.of(0.4, 0.2), Price(RuleSettings())
    chance_s = np.random.default_rng(3).normal(0.0, 0.1, 2400)
    for turn, late in enumerate(item.late_of_mean(goal, chance_s, 0.0).tolist()):
        price.add(TURN_S * turn, TURN_S, 2.0, 2.0 * late, 600.0, goal.share)
    assert price.late_share < 0.02
    assert price.in_work < RuleSettings().usual_price


def test_the_price_rises_while_items_are_late_and_falls_while_none_is() -> None:
    price = Price(RuleSettings())
    for turn in range(400):
        price.add(TURN_S * turn, TURN_S, 2.0, 0.0, 600.0, 0.95)
    calm = price.in_work
    for turn in range(400, 440):
        price.add(TURN_S * turn, TURN_S, 2.0, 1.5, 600.0, 0.95)
    assert price.in_work > 5 * calm
    assert price.late_share == pytest.approx(60 / 880)
    for turn in range(440, 24000):
        price.add(TURN_S * turn, TURN_S, 2.0, 0.0, 600.0, 0.95)
    assert price.in_work == pytest.approx(RuleSettings().least_price, rel=0.01)


def test_a_window_that_was_missed_is_remembered_for_longer_than_the_next_one() -> None:
    price = Price(RuleSettings())
    for turn in range(3600):  # fifteen minutes; in each first one a fifth is late
        price.add(TURN_S * turn, TURN_S, 2.0, 0.4 if turn % 1200 < 240 else 0.0, 600.0, 0.95)
    before = price.in_work
    for turn in range(3600, 4800):
        price.add(TURN_S * turn, TURN_S, 2.0, 0.0, 600.0, 0.95)
    assert before > price.in_work > 2 * RuleSettings().usual_price


def test_items_that_waited_for_the_first_workers_do_not_raise_the_price() -> None:
    rule, rng, price = Rule(STAGES), np.random.default_rng(5), []
    for turn in range(1, 400):
        at_s, came = TURN_S * turn, float(rng.poisson(10.0 * TURN_S))
        late = came if 2.0 < at_s < 10.0 or at_s > 90.0 else 0.0
        rule.observe(Seen(at_s, TURN_S, came, np.full(2, came), came * np.array(EACH_S), came, [late]), GOALS)
        rule.choose(Now(Plan(MERGED, (1,)), 1, 0.0, [0, 0], GOALS, 16, 1.0))
        price.append(rule.prices[0].in_work)
    assert max(price[:350]) <= RuleSettings().usual_price
    assert price[-1] > 2 * RuleSettings().usual_price, "later ones do"


def turns(rule: Rule, count: int, rate_per_s: float, goals: tuple[Goal, ...] = GOALS, each_s: Any = EACH_S) -> Any:
    """Show the rule so many turns of a Poisson stream; tell the number of each."""
    rng, late = np.random.default_rng(5), [0.0] * len(goals)
    for turn in range(1, count):
        came = float(rng.poisson(rate_per_s * TURN_S))
        begun, busy_s = np.full(len(each_s), came), came * np.array(each_s)
        rule.observe(Seen(TURN_S * turn, TURN_S, came, begun, busy_s, came, late), goals)
        yield turn


def chosen(
    rate_per_s: float,
    active: Plan,
    *,
    listed: Listing | None = None,
    backlog: float = 0.0,
    most: int = 16,
    goals: tuple[Goal, ...] = GOALS,
    cores: float = 16.0,
    costing: Costing = Costing(),  # noqa: B008  # frozen
) -> Choice:
    rule, choice = Rule(STAGES), None
    for turn in turns(rule, 400, rate_per_s, goals):
        waits = backlog if turn > 340 else 0.0
        now = Now(active, active.workers, waits, [0, 0], goals, most, 1.0, cores, listed=listed, costing=costing)
        choice = rule.choose(now)
        if choice is not None and choice.chosen.plan != active:
            rule.changed(choice.chosen.plan, active, active.workers)
            active = choice.chosen.plan
    assert choice is not None
    return choice


def test_as_many_workers_as_the_load_needs_and_little_more() -> None:
    # 10 items/s of 0.4 s keep 4 workers busy.
    assert 4 < chosen(10.0, Plan(MERGED, (8,))).chosen.plan.workers <= 6


def test_neighbours_are_merged_and_what_waits_gets_more_workers() -> None:
    assert chosen(1.0, Plan(APART, (1, 1))).chosen.plan == Plan(MERGED, (1,))
    calm, pressed = (chosen(10.0, Plan(MERGED, (5,)), backlog=backlog).chosen.plan for backlog in (0.0, 60.0))
    assert pressed.workers > calm.workers
    with_hops = chosen(5.0, Plan(APART, (1, 2)), costing=Costing(hop_s=0.1)).chosen.plan
    assert with_hops.grouping == MERGED, "the way between groups costs"


def test_the_limit_of_workers_holds_and_the_lack_shows() -> None:
    choice = chosen(30.0, Plan(MERGED, (6,)), most=6)
    assert choice.chosen.plan.workers <= 6
    assert choice.chosen.late_shares[0] > 0.5
    assert choice.hopeless
    assert choice.chosen.plan not in [each.plan for each in choice.others]


def test_a_backlog_gets_workers_in_every_group_that_it_has_to_pass() -> None:
    # Groups stay apart because of the price. With all workers in one group, the other one would hold the backlog up.
    stages = (StageFacts("a"), StageFacts("b", price=3.0))
    active, rule, plans = Plan(APART, (2, 4)), Rule(stages), []
    for turn in turns(rule, 400, 10.0):
        choice = rule.choose(Now(active, active.workers, 300.0 * (turn > 340), [0, 0], GOALS, 12, 1.0))
        if choice is not None and choice.chosen.plan != active:
            rule.changed(choice.chosen.plan, active, active.workers)
            active = choice.chosen.plan
        plans.append(active)
    assert all(a > 10 * EACH_S[0] and b > 10 * EACH_S[1] for a, b in (plan.replicas for plan in plans[345:]))
    assert len(set(plans[350:])) <= 2


def test_in_a_calm_stream_no_queue_grows_however_slowly() -> None:
    """Three frames a turn keep 4.02 workers busy: with four, they would be late after some hours."""
    for count, expected in ((4, 5), (5, 5), (8, 5)):
        rule, active = Rule(STAGES), Plan(MERGED, (count,))
        for turn in range(1, 800):
            rule.observe(Seen(TURN_S * turn, TURN_S, 3.0, np.full(2, 3.0), np.array([0.3, 0.705]), 3.0, [0.0]), (LONG,))
            choice = rule.choose(Now(active, active.workers, 0.0, [0, 0], (LONG,), 16, 1.0))
            active = active if choice is None else choice.chosen.plan
        assert active.workers == expected


def test_in_a_calm_stream_a_short_queue_neither_keeps_workers_nor_gets_more() -> None:
    active, rule, goals = Plan(MERGED, (9,)), Rule(STAGES), (Goal(0.6, 0.95),)
    listed = Listing([active, Plan(APART, (2, 4))])
    for turn in range(1, 440):
        rule.observe(Seen(TURN_S * turn, TURN_S, 3.0, np.full(2, 3.0), np.array([0.3, 0.97]), 3.0, [0.0]), goals)
        inside, waits = [0, 7 * (turn % 20 == 0)], 4.4 * (turn > 430)
        choice = rule.choose(Now(active, active.workers, waits, inside, goals, 16, 1.0, listed=listed))
        active = active if choice is None else choice.chosen.plan
        assert active.workers == 6 or turn < 400
    assert active.workers == 6


def test_without_news_groups_change_less_and_less_often() -> None:
    rule, apart, at_s = Rule(STAGES), Plan(APART, (1, 1)), list[float]()
    for turn in turns(rule, 1200, 1.0):
        choice = rule.choose(Now(apart, 2, 0.0, [0, 0], GOALS, 16, 1.0))
        if choice is not None and choice.chosen.plan.grouping == MERGED:
            rule.changed(choice.chosen.plan, apart, 2)
            rule.changed(apart, choice.chosen.plan, 1)  # it was in vain
            at_s.append(TURN_S * turn)
    gaps_s = np.diff(at_s).tolist()
    assert len(gaps_s) > 1
    assert all(later > 1.9 * sooner for sooner, later in pairwise(gaps_s))


def test_while_all_items_are_late_workers_are_not_moved_for_a_small_gain() -> None:
    stages, mean_s = (StageFacts("a"), StageFacts("b", price=3.0), StageFacts("c")), np.array([0.3, 0.3, 0.45])
    active, rule, moves, rng = Plan(((0,), (1,), (2,)), (4, 3, 5)), Rule(stages), 0, np.random.default_rng(1)
    for turn in range(1, 600):
        came, backlog = float(rng.poisson(2.0)), 400.0 * (turn > 340)
        busy_s = came * mean_s * rng.lognormal(0.0, 0.8, 3)
        rule.observe(Seen(TURN_S * turn, TURN_S, came, np.full(3, came), busy_s, came, [came * (backlog > 0)]), GOALS)
        choice = rule.choose(Now(active, 12, backlog, rng.integers(0, 16, 3).tolist(), GOALS, 12, 1.0))
        if choice is not None and choice.chosen.plan != active:
            rule.changed(choice.chosen.plan, active, 12)
            active, moves = choice.chosen.plan, moves + (turn > 380)
    assert not moves


def test_what_the_objective_tolerates_is_not_hopeless() -> None:
    strict, tolerant = (chosen(2.0, Plan(MERGED, (4,)), goals=(Goal(0.39, 0.95, tolerance=by),)) for by in (1.0, 1.5))
    assert (strict.hopeless, tolerant.hopeless) == (True, False)


def test_a_smaller_limit_counts_at_once_also_for_what_was_wanted_before() -> None:
    rule, plans = Rule(STAGES), []
    for turn in turns(rule, 400, 10.0):
        most = 16 if turn < 380 else 3
        choice = rule.choose(Now(Plan(APART, (2, 4)), 6, 0.0, [0, 0], GOALS, most, 1.0))
        if choice is not None and turn >= 380:
            plans.append(choice.chosen.plan)
    assert plans
    assert all(plan.workers <= 3 for plan in plans)


def test_what_comes_beyond_the_rate_that_is_asked_for_gets_no_workers() -> None:
    kept_up, half = (chosen(10.0, Plan(MERGED, (5,)), goals=(Goal(2.0, 0.95, per_s),)) for per_s in (np.inf, 5.0))
    assert half.chosen.plan.workers <= 0.7 * kept_up.chosen.plan.workers
    full = chosen(10.0, Plan(MERGED, (5,)), goals=(Goal(2.0, 0.95, 5.0),), backlog=500.0)
    assert full.chosen.plan == half.chosen.plan, "nor does what waits"


def test_with_more_of_the_machine_an_app_reaches_no_less() -> None:
    rule = Rule(STAGES)
    assert len([*turns(rule, 400, 10.0)]) == 399
    now = Now(Plan(MERGED, (5,)), 5, 40.0, [3, 3], GOALS, 16, 1.0)
    found = rule.reaches(now, [(most, np.inf) for most in range(1, 17)])
    met = [each.attained(GOALS) for each in found]
    assert all(each.plan.workers <= most for most, each in enumerate(found, 1))
    assert all(more >= fewer - 0.02 for fewer, more in pairwise(met))
    assert met[1] < 0.5 < 0.99 < met[-1]


def test_workers_around_a_stage_that_can_have_no_more_are_not_asked_for() -> None:
    # 8 items/s keep the stage with a state busy for 0.8 of the time; a fifth of them is late, so the price is high.
    stages = (StageFacts("a"), StageFacts("b", most=1), StageFacts("c"))
    active, rng, rule = Plan(((0,), (1,), (2,)), (1, 1, 1)), np.random.default_rng(5), Rule(stages)
    for turn in range(1, 700):
        came = float(rng.poisson(8.0 * TURN_S))
        busy_s = came * np.array([0.08, 0.1, 0.08]) * rng.lognormal(0.0, 0.2, 3)
        rule.observe(Seen(TURN_S * turn, TURN_S, came, np.full(3, came), busy_s, came, [0.2 * came]), GOALS)
        if turn in (40, 690, 699):
            choice = rule.choose(Now(active, 3, 0.0, [0, 0, 0], GOALS, 16, 1.0))
            assert choice.chosen.plan == active
    assert rule.prices[0].in_work > 100


def every_grouping(count: int) -> list[Grouping]:
    longer = [(*before, tuple(range(begin, count))) for begin in range(count) for before in every_grouping(begin)]
    return longer or [()]


@given(
    st.lists(
        st.builds(StageFacts, st.just("s"), st.sampled_from([1, 4, 1000]), st.sampled_from([0.0, 1.0, 3.0])),
        min_size=1,
        max_size=5,
    ),
    st.data(),
)
def test_no_cut_of_the_pipeline_is_cheaper(stages: list[StageFacts], data: st.DataObject) -> None:
    loads = data.draw(st.lists(st.floats(0, 20), min_size=len(stages), max_size=len(stages)))
    found = grouping_cost(stages, loads, cheapest(stages, loads))
    assert found == pytest.approx(min(grouping_cost(stages, loads, each) for each in every_grouping(len(stages))))


def test_neighbours_share_workers_but_for_a_state_or_an_accelerator() -> None:
    plain = [StageFacts(name) for name in "abc"]
    assert cheapest(plain, [1.0, 1.0, 1.0]) == ((0, 1, 2),)
    assert cheapest([plain[0], StageFacts("b", most=1), plain[2]], [1.0, 0.5, 1.0]) == ((0,), (1,), (2,))
    assert cheapest([plain[0], StageFacts("b", price=9.0), plain[2]], [3.0, 0.5, 3.0]) == ((0,), (1,), (2,))
