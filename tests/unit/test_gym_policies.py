"""Policies of the gym against their published examples and against sequences worked out by hand."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import NormalDist

import pytest

from compositions.errors import RecomposeError
from compositions.model import Composition
from lab.gym.players import read_policy
from lab.gym.policies import PORTS
from lab.gym.policies.conttune import PUBLISHED as CONTTUNE
from lab.gym.policies.conttune import ContTune, expected_least
from lab.gym.policies.dynamo import Dynamo, DynamoLoad, predicted
from lab.gym.policies.flink import Flink, FlinkSettings
from lab.gym.policies.forms import MakePolicy, apart, granted, merged, merged_groups
from lab.gym.policies.horizontal import DEFAULTS, Horizontal
from lab.gym.policies.hpa import Hpa, HpaSettings
from lab.gym.policies.inferline import InferLine, envelope, instants, plan, share_in_time
from lab.gym.policies.keda import Keda
from lab.gym.policies.port import Given, Measured, Policy, Replicas, StageNow
from lab.gym.policies.ray_data import RayData, RayDataSettings
from lab.gym.policies.ray_serve import RayServe
from lab.gym.policies.square_root import SquareRoot, staffed
from lab.gym.policies.xenna import Xenna, balanced

ONE = Given(("a",), 1.0, 100)
TWO = Given(("a", "b"), 1.0, 100)


def stage(name: str, replicas: int = 1, waiting: int = 0, **more: float) -> StageNow:
    ready = int(more.get("ready", replicas))
    return StageNow(name, replicas, more.get("busy_s", 0.0), int(more.get("done", 0)), waiting, ready)


def turn(at_s: float, *stages: StageNow, arrived: int = 0, elapsed_s: float = 15.0, late_s: float = 0.1) -> Measured:
    return Measured(at_s, elapsed_s, arrived, late_s, stages[0].waiting, stages)


def answers(policy: Policy, turns: Sequence[Measured]) -> list[Replicas]:
    found = []
    for each in turns:
        policy.observe(each)
        asked = policy.decide()
        assert not isinstance(asked, Composition)
        found.append(asked)
    return found


# --- Kubernetes -------------------------------------------------------------------------------------------------------


def test_horizontal_doubles_and_halves_as_documented() -> None:
    """With a target of 100m, 200m doubles the replicas and 50m halves them."""
    assert Horizontal(DEFAULTS).replicas(0.0, 4, 200 / 100) == 8
    scaler = Horizontal(DEFAULTS)
    scaler.replicas(0.0, 4, 50 / 100)
    assert scaler.replicas(301.0, 4, 50 / 100) == 2, "once its first 300 s are over"


def test_horizontal_ignores_a_ratio_within_the_tolerance() -> None:
    assert [Horizontal(DEFAULTS).replicas(0.0, 10, ratio) for ratio in (1.0, 1.1, 1.11)] == [10, 10, 12]


def test_horizontal_goes_down_only_where_300_s_agree() -> None:
    scaler = Horizontal(DEFAULTS)
    assert scaler.replicas(0.0, 10, 0.5) == 10, "it was 10 when it began"
    assert scaler.replicas(15.0, 10, 0.8) == 10
    assert scaler.replicas(300.0, 10, 0.5) == 10
    assert scaler.replicas(301.0, 10, 0.5) == 8, "8 was recommended at 15 s"
    assert scaler.replicas(316.0, 8, 0.5) == 5, "of 0.5 · 10 at 300 s and 0.5 · 8 now"


def test_horizontal_at_most_doubles_or_adds_four() -> None:
    scaler = Horizontal(DEFAULTS)
    assert scaler.replicas(0.0, 1, 50.0) == 5
    assert scaler.replicas(15.0, 5, 50.0) == 10
    assert scaler.replicas(30.0, 10, 1.2) == 12


def test_horizontal_counts_starting_replicas_as_idle() -> None:
    """Of 4 replicas 2 are ready and at 1.25 of the target: ceil(2 · 1.25) = 3 are fewer than there are."""
    assert Horizontal(DEFAULTS).replicas(0.0, 4, 1.25, ready=2) == 4
    assert Horizontal(DEFAULTS).replicas(0.0, 4, 3.0, ready=2) == 6
    assert Horizontal(DEFAULTS).replicas(0.0, 4, 3.0, ready=0) == 4


def test_hpa_wants_the_replicas_that_bring_utilization_to_the_target() -> None:
    """ceil(4 · 0.96 / 0.8) = ceil(4.8) = 5: each of 4 replicas worked 14.4 of 15 s."""
    assert answers(Hpa(ONE), [turn(15, stage("a", 4, busy_s=57.6, done=10))]) == [{"a": 5}]


def test_hpa_measures_over_ready_replicas() -> None:
    """One of 5 replicas is ready and busy all the time: 1 / 0.8 of one is 2, so the 5 that were asked for stay."""
    assert answers(Hpa(ONE), [turn(15, stage("a", 5, busy_s=15.0, done=10, ready=1))]) == [{"a": 5}]


def test_hpa_looks_every_15_s() -> None:
    turns = [turn(at_s, stage("a", busy_s=5.0, done=10), elapsed_s=5.0) for at_s in (5.0, 10.0, 15.0, 20.0)]
    assert answers(Hpa(ONE), turns) == [{}, {}, {"a": 2}, {}], "1 / 0.8 of one is 1.25"


def test_other_settings_are_another_variant() -> None:
    tuned = partial(Hpa, settings=HpaSettings(target=0.6))
    assert answers(tuned(ONE), [turn(15, stage("a", 4, busy_s=57.6, done=10))]) == [{"a": 7}], "4 · 0.96 / 0.6 = 6.4"


def test_keda_wants_a_replica_for_each_ten_items() -> None:
    """A lag of 50 with a threshold of 10 asks for 5 replicas."""
    assert answers(Keda(ONE), [turn(0.25, stage("a", 1, 50))]) == [{"a": 5}]


def test_keda_asks_the_scaler_every_15_s() -> None:
    turns = [
        turn(0.25, stage("a", 1, 34), stage("b", 1, 4)),
        turn(15.0, stage("a", 4, 90), stage("b", 1, 4)),
        turn(15.25, stage("a", 4, 71), stage("b", 1, 4)),
        turn(30.25, stage("a", 8, 0), stage("b", 1, 0)),
    ]
    assert answers(Keda(TWO), turns) == [{"a": 4, "b": 1}, {}, {"a": 8, "b": 1}, {"a": 8, "b": 1}]


# --- Flink ------------------------------------------------------------------------------------------------------------

QUICK = FlinkSettings(15.0, 5.0, 30.0)


def at_20_a_second(at_s: float, a: int, b: int, waiting: int = 0) -> Measured:
    """20 items/s of 0.1 s at ``a`` and 0.35 s at ``b``, over 15 s."""
    return turn(at_s, stage("a", a, waiting, busy_s=30.0, done=300), stage("b", b, busy_s=105.0, done=300), arrived=300)


def test_ds2_divides_the_rate_by_the_true_rate_of_one_replica() -> None:
    """40 items/s where one replica does 10/s and another 20/s when busy: 4 and 2, in one step (DS2, equation 7)."""
    slow, quick = stage("a", busy_s=15.0, done=150), stage("b", busy_s=7.5, done=150)
    ds2 = Flink(TWO, FlinkSettings(15.0, target=1.0, boundary=0.0))
    assert answers(ds2, [turn(15.0, slow, quick, arrived=600)]) == [{"a": 4, "b": 2}]


def test_flink_takes_true_rates_at_70_percent() -> None:
    """A replica of a does 10/s, of b 2.857/s; 20 / 0.7 = 28.57/s: ceil(2.857) = 3 and 10."""
    assert answers(Flink(TWO, QUICK), [at_20_a_second(15.0, 1, 1)]) == [{"a": 3, "b": 10}]


def test_flink_leaves_what_is_within_its_boundary() -> None:
    """3 and 10 replicas do 30 and 28.57/s: between 20 / 1.0 and 20 / 0.4."""
    assert answers(Flink(TWO, QUICK), [at_20_a_second(15.0, 3, 10)]) == [{}]


def test_flink_works_off_the_backlog() -> None:
    """A backlog of 300 is 10/s more over 30 s: 38.57/s."""
    assert answers(Flink(TWO, QUICK), [at_20_a_second(15.0, 1, 1, waiting=300)]) == [{"a": 4, "b": 14}]


def test_flink_gives_back_60_percent_at_most() -> None:
    """20 replicas of a do 200/s and need 28.57: 3, but no fewer than 0.4 · 20."""
    assert answers(Flink(TWO, QUICK), [at_20_a_second(15.0, 20, 10)]) == [{"a": 8, "b": 10}]


def test_flink_measures_again_after_a_change() -> None:
    """Stabilization ends at 20 s, the window is full at 35 s."""
    turns = [at_20_a_second(15.0, 1, 1), *(at_20_a_second(at_s, 3, 5) for at_s in (19.0, 35.0))]
    assert answers(Flink(TWO, QUICK), turns) == [{"a": 3, "b": 10}, {}, {"a": 3, "b": 10}]


def test_flink_waits_for_a_quarter_of_an_hour() -> None:
    found = answers(Flink(TWO), [at_20_a_second(15.0 * step, 1, 1) for step in range(1, 61)])
    assert found == [{}] * 59 + [{"a": 3, "b": 10}]


# --- Ray --------------------------------------------------------------------------------------------------------------


def test_ray_serve_wants_two_ongoing_items_a_replica_after_30_s() -> None:
    """8 ongoing items are 4 replicas. They are reported from 10 s on, so the delay ends at 40 s."""
    found = answers(RayServe(ONE), [turn(at_s, stage("a", 1, 8), elapsed_s=5.0) for at_s in range(5, 45, 5)])
    assert found == [{}] * 7 + [{"a": 4}]


def test_ray_serve_starts_its_delay_again_when_the_direction_changes() -> None:
    """Means of 30 s reported at 10, 20 and 30 s: 8, then (8 · 10 + 0 · 10) / 20 = 4, then 2.7 of 4 replicas' 8."""
    waiting = [8, 8, 0, 0, 0, 0, 0, 0]
    turns = [turn(5.0 * (step + 1), stage("a", 2, count), elapsed_s=5.0) for step, count in enumerate(waiting)]
    assert answers(RayServe(ONE), turns) == [{}] * 8


def test_ray_serve_gives_back_after_600_s() -> None:
    found = answers(RayServe(ONE), [turn(10.0 * step, stage("a", 4, 2), elapsed_s=10.0) for step in range(1, 63)])
    assert found == [{}] * 60 + [{"a": 1}, {}]


def test_ray_data_grows_to_the_threshold() -> None:
    """14 tasks / 1.75 = 8 actors; one actor has two of them in flight, which is a utilization of 2."""
    assert answers(RayData(ONE), [turn(0.25, stage("a", 1, 14))]) == [{"a": 8}]


def test_ray_data_without_the_backlog_grows_with_its_size() -> None:
    """4 actors with 8 tasks in flight: ceil(4 · (2 / 1.75 − 1)) = 1 more."""
    plain = RayData(ONE, RayDataSettings(backlog_aware=False))
    assert answers(plain, [turn(0.25, stage("a", 4, 14))]) == [{"a": 5}]


def test_ray_data_waits_for_pending_actors() -> None:
    """Of 8 actors one is running: 2 of 14 tasks are in flight, 0.25 of what all could run, and none may go."""
    assert answers(RayData(ONE), [turn(0.25, stage("a", 8, 14, ready=1))]) == [{}]


def test_ray_data_shrinks_by_one_ten_seconds_after_growth() -> None:
    turns = [turn(0.0, stage("a", 1, 7)), *(turn(at_s, stage("a", 4, 2)) for at_s in (5.0, 9.75, 10.0))]
    assert answers(RayData(ONE), turns) == [{"a": 4}, {}, {}, {"a": 3}]


# --- Dynamo -----------------------------------------------------------------------------------------------------------


def test_dynamo_divides_the_rate_by_what_a_replica_does_at_the_corrected_target() -> None:
    """10/s of 0.1 s on 2 replicas: the profile expects 0.1 / (1 − 0.5) = 0.2 s, measured are 0.4: correction 2. At
    1 s / 2 a replica may be utilized by 1 − 0.1 / 0.5 = 0.8, so 8/s: ceil(10 / 8) = 2. With 0.8 s measured:
    correction 4, 0.6, 6/s: 2; with 2 s: correction 10, 0.1 / 0.1 leaves 0.05: 20."""
    for late_s, replicas in ((0.4, 2), (0.8, 2), (2.0, 20)):
        seen = turn(180.0, stage("a", 2, busy_s=180.0, done=1800), arrived=1800, elapsed_s=180.0, late_s=late_s)
        assert answers(Dynamo(ONE), [seen]) == [{"a": replicas}]


def test_dynamo_decides_at_its_intervals_only() -> None:
    seen = turn(90.0, stage("a", 2, busy_s=90.0, done=900), arrived=900, elapsed_s=90.0)
    assert answers(Dynamo(ONE), [seen]) == [{}]


def test_the_next_value_of_a_series() -> None:
    assert predicted([5.0]) == 5.0
    assert predicted([1.0, 2.0, 3.0]) == 3.0, "too few"
    assert predicted([1.0, 2.0, 3.0, 4.0]) == pytest.approx(5.0)
    assert predicted([4.0, 4.0, 4.0, 4.0]) == 4.0
    assert predicted([1.0, 2.0, 1.0, 2.0]) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("queue", "replicas", "ready", "asked"),
    [
        (19, 2, 2, {"a": 3}),  # 0.1 · (19 / 2 + 1) = 1.05 s: each replica misses 1 s
        (15, 2, 2, {}),  # 0.85 s is in time, but one replica would have 0.1 · 15 of (1 − 0.1) · 0.8 = 0.72 s
        (7, 2, 2, {"a": 1}),  # 0.7 s
        (7, 1, 1, {}),
        (99, 2, 1, {}),  # a change is under way
    ],
)
def test_dynamo_by_load_changes_by_one(queue: int, replicas: int, ready: int, asked: Replicas) -> None:
    seen = turn(5.0, stage("a", replicas, queue, busy_s=5.0, done=50, ready=ready), elapsed_s=5.0)
    assert answers(DynamoLoad(ONE), [seen]) == [asked]


# --- cosmos-xenna and ContTune ----------------------------------------------------------------------------------------


def test_xenna_shares_all_workers_so_that_stages_are_equally_fast() -> None:
    """Speeds of 0.1, 1 and 0.05 need 10, 1 and 20 workers for the same throughput."""
    assert balanced([0.1, 1.0, 0.05], [1, 1, 1], 31) == [10, 1, 20]
    assert balanced([0.1, 1.0, 0.05], [20, 10, 1], 31) == [10, 1, 20], "donors give theirs"


def test_xenna_decides_every_three_minutes_and_leaves_a_stateful_stage_alone() -> None:
    given = Given(("a", "b"), 1.0, 10, stateful=("b",))
    turns = [turn(at_s, stage("a", busy_s=1.0, done=10), stage("b", busy_s=1.0, done=10)) for at_s in (0, 15, 180)]
    assert answers(Xenna(given), turns) == [{"a": 9}, {}, {"a": 9}]


MAPPER = {1: 529573.0, 2: 966817.0, 4: 1829696.0, 6: 2535503.0, 7: 2936889.0, 8: 3118478.0, 10: 3721099.0}
MAPPER |= {14: 4624714.0, 15: 4967828.0, 20: 6350677.0, 21: 6465250.0, 25: 7089387.0, 26: 7476392.0}


def test_conttune_recommends_11_for_the_published_mapper() -> None:
    """Nexmark Q1's mapper at 4 million records/s: 10.64, so 11 (README of its repository)."""
    assert expected_least(MAPPER, 4e6, 27, CONTTUNE) == 11


def test_conttune_doubles_in_its_big_phase_and_then_takes_the_least() -> None:
    """20 items/s of 0.1 s: 1, 2 and 4 replicas. The next look finds 2 enough by the observation of 2 replicas."""

    def seen(at_s: float, replicas: int, used: float, waiting: int) -> Measured:
        done = round(replicas * 60 * used / 0.1)
        return turn(at_s, stage("a", replicas, waiting, busy_s=0.1 * done, done=done), arrived=1200, elapsed_s=60.0)

    turns = [seen(60.0, 1, 1.0, 600), seen(120.0, 2, 1.0, 600), seen(180.0, 4, 0.9, 0), seen(240.0, 4, 0.5, 0)]
    assert answers(ContTune(ONE), turns) == [{"a": 2}, {"a": 4}, {}, {"a": 2}]


def test_conttune_shares_the_workers_when_all_are_in_use() -> None:
    """8 and 8 of 16 workers do 160/s and 40/s: the rate of 60/s needs 3 and 12."""
    given = Given(("a", "b"), 1.0, 16)
    seen = turn(
        60.0,
        stage("a", 8, 600, busy_s=120.0, done=2400),
        stage("b", 8, busy_s=480.0, done=2400),
        arrived=3600,
        elapsed_s=60.0,
    )
    assert answers(ContTune(given), [seen]) == [{"a": 3, "b": 12}]


# --- InferLine --------------------------------------------------------------------------------------------------------


def test_an_envelope_is_the_highest_rate_in_any_window() -> None:
    """3 items in one turn of 0.25 s are 12/s, 5 in two are 10/s, 6 in four are 6/s."""
    assert envelope([0, 2, 3, 0, 1, 0, 0, 0], [1, 2, 4], 0.25) == [12.0, 10.0, 6.0]


def test_arrivals_of_a_turn_are_spread_within_it() -> None:
    assert instants([0, 2], 1.0) == [1.25, 1.75]


def test_the_planner_takes_the_fewest_replicas_that_meet_the_objective() -> None:
    """10 items/s of 0.05 and 0.35 s within 0.5 s: one replica and four, since three do 8.6/s."""
    due_s = [item / 10 for item in range(600)]
    given = Given(("a", "b"), 0.5, 20)
    assert plan(due_s, [0.05, 0.35], [False, False], given) == [1, 4]
    assert share_in_time(due_s, [0.05, 0.35], [1, 3], given) < 0.2
    assert plan(due_s, [0.05, 0.35], [False, True], given) == [19, 1], "which the other stage cannot make good"


def inferline_turns(rates: Sequence[int], replicas: int) -> list[Measured]:
    """Turns of a second; items take 0.1 s."""
    seen = [stage("a", replicas, busy_s=0.1 * rate, done=rate) for rate in rates]
    pairs = enumerate(zip(seen, rates, strict=True))
    return [turn(at + 1.0, each, arrived=rate, elapsed_s=1.0) for at, (each, rate) in pairs]


def test_inferline_scales_up_by_the_rate_that_exceeds_the_plan() -> None:
    """Planned for 16/s of 0.1 s: 2 replicas at ρ = 0.8. A second of 32 items needs ceil(32 / (10 · 0.8)) = 4."""
    policy = InferLine(Given(("a",), 0.5, 100))
    found = answers(policy, inferline_turns([16] * 60, 1))
    assert found == [{"a": 100}] * 59 + [{"a": 2}], "all workers until there is a plan"
    assert answers(policy, inferline_turns([16, 32], 2)) == [{}, {"a": 4}]


def test_inferline_gives_back_after_15_s_by_the_highest_rate_of_30_s() -> None:
    """5 s of 8 items among none are 8/s: ceil(8 / (10 · 0.8)) = 1, once the 16/s are 30 s ago."""
    policy = InferLine(Given(("a",), 0.5, 100))
    answers(policy, inferline_turns([16] * 60, 1))
    quiet = [turn(60.0 + at, stage("a", 2), arrived=8, elapsed_s=1.0) for at in range(1, 31)]
    assert answers(policy, quiet) == [{}] * 29 + [{"a": 1}]


# --- Erlang -----------------------------------------------------------------------------------------------------------


def erlang_c(load: float, servers: int) -> float:
    """Return the share of items that wait."""
    blocked = 1.0
    for count in range(1, servers + 1):
        blocked = load * blocked / (count + load * blocked)
    return blocked / (1 - load / servers * (1 - blocked))


@pytest.mark.parametrize("load", [25.0, 100.0, 400.0])
@pytest.mark.parametrize("beta", [0.4, 0.8])
def test_the_share_that_waits_depends_on_beta_alone(load: float, beta: float) -> None:
    """Halfin and Whitt: 1 / (1 + β Φ(β) / φ(β)) of the items wait, here with whole servers."""
    normal = NormalDist()
    limit = 1 / (1 + beta * normal.cdf(beta) / normal.pdf(beta))
    assert staffed(load, beta) == math.ceil(load + beta * math.sqrt(load))
    assert erlang_c(load, staffed(load, beta)) == pytest.approx(limit, abs=0.06)


def test_square_root_staffs_each_stage_and_holds() -> None:
    """10/s of 0.5 s: 5 + 0.8 · sqrt(5) = 6.8; then 2/s for three seconds."""

    def seen(at_s: float, arrived: int) -> Measured:
        return turn(at_s, stage("a", 7, busy_s=5.0, done=10), arrived=arrived, elapsed_s=1.5)

    turns = [seen(1.5, 15), seen(3.0, 3), seen(4.5, 3), seen(6.0, 3)]
    assert answers(SquareRoot(ONE), turns) == [{"a": 7}, {"a": 7}, {"a": 7}, {"a": 2}]


def test_square_root_works_off_a_backlog_in_the_bound() -> None:
    """40 at the stage less 7 in work, 2, and 0.2 · 10 · 1 as usual are 29 of 0.5 s in 1 s: 14.5 more than 6.8."""
    seen = turn(1.5, stage("a", 7, 40, busy_s=5.0, done=10), arrived=15, elapsed_s=1.5)
    assert answers(SquareRoot(ONE), [seen]) == [{"a": 22}]


# --- forms ------------------------------------------------------------------------------------------------------------


class Fixed(Policy):
    """Asks for the same at each turn, and keeps what it was given and what it saw."""

    WARM_S = 7.0

    def __init__(self, given: Given, asked: Mapping[str, int]) -> None:
        self.given, self.asked, self.seen = given, asked, ()  # type: ignore[var-annotated]

    def observe(self, measured: Measured) -> None:
        self.seen = measured.stages

    def decide(self) -> Replicas:
        return self.asked


THREE = Given(("a", "b", "c"), 1.0, 10, stateful=("b",), prices=(1, 2, 3))
NOW = turn(1.0, stage("a", 1, 3, busy_s=1.0, done=5), stage("b", 1, 4, busy_s=2.0, done=4), stage("c", 1, 5, done=3))


def shape(asked: Replicas | Composition) -> tuple[object, ...]:
    assert isinstance(asked, Composition)
    return asked.shape


def test_neighbours_are_merged_around_a_stage_with_state() -> None:
    assert merged_groups("abc", "") == (("a", "b", "c"),)
    assert merged_groups("abcde", "c") == (("a", "b"), ("c",), ("d", "e"))
    assert merged_groups("ab", "ab") == (("a",), ("b",))


def test_a_group_is_seen_as_one_stage() -> None:
    made: list[Fixed] = []

    def make(given: Given) -> Policy:
        made.append(Fixed(given, {"a+b": 3, "c": 2}))
        return made[0]

    policy = merged(make)(Given(("a", "b", "c"), 1.0, 10, stateful=("c",), prices=(1, 2, 3)))
    policy.observe(NOW)
    assert made[0].given.stages == ("a+b", "c")
    assert (made[0].given.stateful, made[0].given.prices) == (("c",), (3, 3))
    assert made[0].seen == (StageNow("a+b", 1, 3.0, 4, 7, 1), StageNow("c", 1, 0.0, 3, 5, 1))
    assert shape(policy.decide()) == ((("a", "b"), 3), (("c",), 1)), "a stateful group gets one"
    assert policy.decide() == {}, "nothing has changed"
    policy.observe(NOW)
    assert made[0].seen[0].replicas == 3
    assert policy.WARM_S == 7.0


def test_the_first_answer_merges_even_if_the_rule_has_not_decided() -> None:
    policy = merged(lambda given: Fixed(given, {}))(Given(("a", "b"), 1.0, 10))
    assert shape(policy.decide()) == ((("a", "b"), 1),)
    assert policy.decide() == {}


def test_each_stage_may_be_a_group() -> None:
    policy = apart(lambda given: Fixed(given, {"a": 20, "b": 5, "c": 3}))(THREE)
    assert shape(policy.decide()) == ((("a",), 6), (("b",), 1), (("c",), 3))


def test_one_group_of_one_stage_changes_nothing() -> None:
    given = Given(("a",), 1.0, 10)
    seen = turn(15, stage("a", 1, busy_s=15.0, done=10))
    policy = merged(Hpa)(given)
    policy.observe(seen)
    assert shape(policy.decide()) == ((("a",), 2),)
    assert answers(Hpa(given), [seen]) == [{"a": 2}]


def test_fewer_replicas_come_first_then_one_more_in_turn() -> None:
    assert granted({"a": 1, "b": 9, "c": 9}, {"a": 4, "b": 2, "c": 2}, 9) == {"a": 1, "b": 4, "c": 4}
    assert granted({"b": 3}, {"a": 1, "b": 1}, 10) == {"a": 1, "b": 3}


@pytest.mark.parametrize("asked", [{"z": 1}, {"a": 0}, {"a": 1.5}])
def test_an_impossible_number_of_replicas_is_refused(asked: Replicas) -> None:
    with pytest.raises(RecomposeError, match="must be 1 or more of a"):
        granted(asked, {"a": 1}, 10)


# --- all rules on a queue of fluid ------------------------------------------------------------------------------------


def played(make: MakePolicy, rate_per_s: float, duration_s: float) -> tuple[float, int]:
    """Return the items that are left and the workers at the end, where items of 0.05 and 0.2 s flow through.

    A stage's queue is bounded, so a stage that is too slow holds back what comes; replicas start in a second.
    """
    given = Given(("a", "b"), 1.0, 16, cores=16)
    policy, service_s, turn_s = make(given), {"a": 0.05, "b": 0.2}, 0.25
    groups = {("a",): 1, ("b",): 1}
    asked_s: dict[tuple[str, ...], list[tuple[float, int]]] = {}
    queue, done, came = [0.0, 0.0], [0.0, 0.0], 0.0
    for step in range(1, round(duration_s / turn_s) + 1):
        queue[0] += rate_per_s * turn_s
        seen, used = [], []
        for index, (group, replicas) in enumerate(groups.items()):
            starting = [more for at_s, more in asked_s.get(group, []) if at_s > (step - 4) * turn_s]
            ready = max(1, replicas - sum(starting))
            seconds = sum(service_s[name] for name in group)
            room = math.inf if index == len(groups) - 1 else max(0.0, 2.0 * 16 - queue[index + 1])
            flow = min(queue[index], ready * turn_s / seconds, room)
            queue[index] -= flow
            queue[index + 1 :] = [queue[1] + flow] if index + 1 < len(groups) else []
            before, done[index] = int(done[index]), done[index] + flow
            used.append(flow * seconds / (ready * turn_s))
            for name in group:
                count = int(done[index]) - before
                in_work = queue[index] * (index > 0) + flow * seconds / turn_s
                seen.append(StageNow(name, replicas, count * service_s[name], count, math.ceil(in_work), ready))
        held_back = list(groups)[max(range(len(used)), key=used.__getitem__)][-1]
        seen = [replace(each, waiting=each.waiting + int(queue[0]) * (each.name == held_back)) for each in seen]
        before_came, came = int(came), came + rate_per_s * turn_s
        latency_s = 0.25 + sum(queue) / rate_per_s
        policy.observe(Measured(step * turn_s, turn_s, int(came) - before_came, latency_s, int(queue[0]), tuple(seen)))
        asked = policy.decide()
        if isinstance(asked, Composition):
            assert asked.stages == given.stages
            assert asked.workers <= given.workers
            for each in asked.groups:
                more = each.replicas - groups.get(each.stages, 0)
                if more > 0:
                    asked_s.setdefault(each.stages, []).append((step * turn_s, more))
            groups = {each.stages: each.replicas for each in asked.groups}
            queue = [sum(queue)] if len(groups) == 1 else queue
    return sum(queue), sum(groups.values())


@pytest.mark.parametrize("name", PORTS)
def test_every_rule_keeps_up_with_a_steady_load(name: str) -> None:
    """30 items/s need 7.5 workers, after the quarter of an hour that the slowest rule takes to measure."""
    left, workers = played(PORTS[name], 30.0, 3600.0 if "flink" in name else 1800.0)
    if name == "ray-serve":  # without bounds of its own, the first stage to ask gets all workers and keeps them 600 s
        assert workers == 16
        return
    assert workers >= 7
    assert left < 60


# --- a policy of one's own --------------------------------------------------------------------------------------------

OWN = """
class Two:
    def __init__(self, given):
        self.stages = given.stages
    def observe(self, measured):
        pass
    def decide(self):
        return {stage: 2 for stage in self.stages}

class Half:
    def observe(self, measured):
        pass

number = 1
"""


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        ("own.py", "must be a file and a class in it"),
        ("own.py:No", "has no class No"),
        ("own.py:number", "has no class number"),
        ("own.py:Half", "Half has no method decide"),
        ("none.py:Two", "is not there"),
        ("broken.py:Two", "fails: ZeroDivisionError"),
    ],
)
def test_what_is_no_policy_is_refused(tmp_path: Path, place: str, sentence: str) -> None:
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "broken.py").write_text("1 / 0")
    with pytest.raises(RecomposeError, match=sentence):
        read_policy(f"{tmp_path}/{place}")
