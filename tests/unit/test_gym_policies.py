"""Policies of the gym against their published examples and against sequences worked out by hand."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from compositions.errors import RecomposeError
from compositions.model import Composition
from lab.gym.policies import PORTS
from lab.gym.policies.conttune import PUBLISHED as CONTTUNE
from lab.gym.policies.conttune import expected_least
from lab.gym.policies.dynamo import Dynamo
from lab.gym.policies.flink import Flink, FlinkSettings
from lab.gym.policies.forms import MakePolicy, granted, merged
from lab.gym.policies.horizontal import DEFAULTS, Horizontal
from lab.gym.policies.hpa import Hpa
from lab.gym.policies.inferline import plan, share_in_time
from lab.gym.policies.keda import Keda
from lab.gym.policies.port import Given, Measured, Policy, Replicas, StageNow
from lab.gym.policies.ray_data import RayData
from lab.gym.policies.ray_serve import RayServe
from lab.gym.policies.square_root import SquareRoot
from lab.gym.policies.xenna import balanced

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
        found.append(policy.decide())
    return found


def test_horizontal_doubles_and_halves_as_documented() -> None:
    """With a target of 100m, 200m doubles the replicas and 50m halves them."""
    assert Horizontal(DEFAULTS).replicas(0.0, 4, 200 / 100) == 8
    scaler = Horizontal(DEFAULTS)
    scaler.replicas(0.0, 4, 50 / 100)
    assert scaler.replicas(301.0, 4, 50 / 100) == 2, "once its first 300 s are over"


def test_horizontal_goes_down_only_where_300_s_agree() -> None:
    scaler = Horizontal(DEFAULTS)
    assert scaler.replicas(0.0, 10, 0.5) == 10, "it was 10 when it began"
    assert scaler.replicas(15.0, 10, 0.8) == 10
    assert scaler.replicas(300.0, 10, 0.5) == 10
    assert scaler.replicas(301.0, 10, 0.5) == 8, "8 was recommended at 15 s"
    assert scaler.replicas(316.0, 8, 0.5) == 5, "of 0.5 · 10 at 300 s and 0.5 · 8 now"


DS2 = FlinkSettings(15.0, target=1.0, boundary=0.0)
OF_40_A_SECOND = turn(15.0, stage("a", busy_s=15.0, done=150), stage("b", busy_s=7.5, done=150), arrived=600)
OF_20_A_SECOND = turn(15.0, stage("a", busy_s=30.0, done=300), stage("b", busy_s=105.0, done=300), arrived=300)


@pytest.mark.parametrize(
    ("policy", "seen", "answer"),
    [
        # Utilization comes to the target: ceil(4 · 0.96 / 0.8) = 5, as each of 4 replicas worked 14.4 of 15 s.
        (Hpa(ONE), turn(15, stage("a", 4, busy_s=57.6, done=10)), {"a": 5}),
        # A replica for each ten items: a lag of 50 asks for 5.
        (Keda(ONE), turn(0.25, stage("a", 1, 50)), {"a": 5}),
        # The rate by the true rate of one replica, 10/s and 20/s when busy, in one step (DS2, equation 7).
        (Flink(TWO, DS2), OF_40_A_SECOND, {"a": 4, "b": 2}),
        # True rates of 10/s and 2.857/s at 70 percent; 20 / 0.7 = 28.57/s: ceil(2.857) = 3 and 10.
        (Flink(TWO, FlinkSettings(15.0, 5.0, 30.0)), OF_20_A_SECOND, {"a": 3, "b": 10}),
        # 14 tasks / 1.75 = 8 actors; one actor has two of them in flight, which is a utilization of 2.
        (RayData(ONE), turn(0.25, stage("a", 1, 14)), {"a": 8}),
    ],
    ids=["hpa", "keda", "ds2", "flink", "ray-data"],
)
def test_a_policy_asks_for_as_many_replicas_as_published(policy: Policy, seen: Measured, answer: Replicas) -> None:
    assert answers(policy, [seen]) == [answer]


def test_ray_serve_wants_two_ongoing_items_a_replica_after_30_s() -> None:
    """8 ongoing items are 4 replicas. They are reported from 10 s on, so the delay ends at 40 s."""
    found = answers(RayServe(ONE), [turn(at_s, stage("a", 1, 8), elapsed_s=5.0) for at_s in range(5, 45, 5)])
    assert found == [{}] * 7 + [{"a": 4}]


def test_dynamo_divides_the_rate_by_what_a_replica_does_at_the_corrected_target() -> None:
    """10/s of 0.1 s on 2 replicas: the profile expects 0.1 / (1 − 0.5) = 0.2 s, measured are 0.4: correction 2. At
    1 s / 2 a replica may be utilized by 1 − 0.1 / 0.5 = 0.8, so 8/s: ceil(10 / 8) = 2. With 0.8 s measured:
    correction 4, 0.6, 6/s: 2; with 2 s: correction 10, 0.1 / 0.1 leaves 0.05: 20."""
    for late_s, replicas in ((0.4, 2), (0.8, 2), (2.0, 20)):
        seen = turn(180.0, stage("a", 2, busy_s=180.0, done=1800), arrived=1800, elapsed_s=180.0, late_s=late_s)
        assert answers(Dynamo(ONE), [seen]) == [{"a": replicas}]


def test_xenna_shares_all_workers_so_that_stages_are_equally_fast() -> None:
    """Speeds of 0.1, 1 and 0.05 need 10, 1 and 20 workers for the same throughput."""
    assert balanced([0.1, 1.0, 0.05], [1, 1, 1], 31) == [10, 1, 20]
    assert balanced([0.1, 1.0, 0.05], [20, 10, 1], 31) == [10, 1, 20], "donors give theirs"


MAPPER = {1: 529573.0, 2: 966817.0, 4: 1829696.0, 6: 2535503.0, 7: 2936889.0, 8: 3118478.0, 10: 3721099.0}
MAPPER |= {14: 4624714.0, 15: 4967828.0, 20: 6350677.0, 21: 6465250.0, 25: 7089387.0, 26: 7476392.0}


def test_conttune_recommends_11_for_the_published_mapper() -> None:
    """Nexmark Q1's mapper at 4 million records/s: 10.64, so 11 (README of its repository)."""
    assert expected_least(MAPPER, 4e6, 27, CONTTUNE) == 11


def test_the_planner_takes_the_fewest_replicas_that_meet_the_objective() -> None:
    """10 items/s of 0.05 and 0.35 s within 0.5 s: one replica and four, since three do 8.6/s."""
    due_s = [item / 10 for item in range(600)]
    given = Given(("a", "b"), 0.5, 20)
    assert plan(due_s, [0.05, 0.35], [False, False], given) == [1, 4]
    assert share_in_time(due_s, [0.05, 0.35], [1, 3], given) < 0.2
    assert plan(due_s, [0.05, 0.35], [False, True], given) == [19, 1], "which the other stage cannot make good"


def test_square_root_staffs_each_stage_and_holds() -> None:
    """10/s of 0.5 s: 5 + 0.8 · sqrt(5) = 6.8; then 2/s for three seconds."""

    def seen(at_s: float, arrived: int) -> Measured:
        return turn(at_s, stage("a", 7, busy_s=5.0, done=10), arrived=arrived, elapsed_s=1.5)

    turns = [seen(1.5, 15), seen(3.0, 3), seen(4.5, 3), seen(6.0, 3)]
    assert answers(SquareRoot(ONE), turns) == [{"a": 7}, {"a": 7}, {"a": 7}, {"a": 2}]


class Fixed(Policy):
    """Asks for the same at each turn, and keeps what it was given and what it saw."""

    WARM_S = 7.0

    def __init__(self, given: Given, asked: Mapping[str, int]) -> None:
        self.given, self.asked, self.seen = given, asked, ()  # type: ignore[var-annotated]

    def observe(self, measured: Measured) -> None:
        self.seen = measured.stages

    def decide(self) -> Replicas:
        return self.asked


NOW = turn(1.0, stage("a", 1, 3, busy_s=1.0, done=5), stage("b", 1, 4, busy_s=2.0, done=4), stage("c", 1, 5, done=3))


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
    assert policy.decide().shape == ((("a", "b"), 3), (("c",), 1)), "a stateful group gets one"
    assert policy.decide() == {}, "nothing has changed"
    policy.observe(NOW)
    assert made[0].seen[0].replicas == 3
    assert policy.WARM_S == 7.0


@pytest.mark.parametrize("asked", [{"z": 1}, {"a": 0}, {"a": 1.5}])
def test_an_impossible_number_of_replicas_is_refused(asked: Replicas) -> None:
    with pytest.raises(RecomposeError, match="must be 1 or more of a"):
        granted(asked, {"a": 1}, 10)


def played(make: MakePolicy, rate_per_s: float, duration_s: float) -> tuple[float, int]:
    """Return the items left and the workers at the end, for items of 0.05 and 0.2 s. Queues are bounded, so a slow
    stage holds back the input; replicas start in a second."""
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
