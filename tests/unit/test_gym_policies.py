"""Policies of the gym against sequences worked out by hand from their published rules."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from compositions.errors import RecomposeError
from service.gym.piloting import granted, parallel
from service.gym.policies.dynamo import Dynamo, predicted
from service.gym.policies.flink import Flink, FlinkScaled
from service.gym.policies.horizontal import Horizontal, HorizontalSettings
from service.gym.policies.hpa import Hpa
from service.gym.policies.keda import Keda
from service.gym.policies.own import read_policy
from service.gym.policies.port import Given, Measured, Policy, Replicas, StageNow

ONE = Given(("a",), 1.0, 100)
TWO = Given(("a", "b"), 1.0, 100)


def turn(at_s: float, *stages: StageNow, arrived: int = 0, elapsed_s: float = 15.0, late_s: float = 0.1) -> Measured:
    return Measured(at_s, elapsed_s, arrived, late_s, stages[0].waiting, stages)


def told(policy: Policy, turns: Sequence[Measured]) -> list[Replicas]:
    answers = []
    for each in turns:
        policy.observe(each)
        answers.append(policy.decide())
    return answers  # type: ignore[return-value]


# --- Kubernetes -------------------------------------------------------------------------------------------------------


def test_hpa_wants_the_replicas_that_bring_utilization_to_the_target() -> None:
    """ceil(4 · 0.96 / 0.8) = ceil(4.8) = 5: each of 4 replicas worked 14.4 of 15 s."""
    assert told(Hpa(ONE), [turn(15, StageNow("a", 4, 57.6, 10, 0))]) == [{"a": 5}]


def test_hpa_leaves_it_within_the_tolerance() -> None:
    """0.87 / 0.8 = 1.0875."""
    assert told(Hpa(ONE), [turn(15, StageNow("a", 4, 0.87 * 60, 10, 0))]) == [{"a": 4}]


def test_hpa_looks_every_15_s() -> None:
    busy = StageNow("a", 1, 5.0, 10, 0)
    turns = [turn(at_s, busy, elapsed_s=5.0) for at_s in (5.0, 10.0, 15.0, 20.0)]
    assert told(Hpa(ONE), turns) == [{}, {}, {"a": 2}, {}], "1 / 0.8 of one is 1.25"


def test_down_only_where_300_s_agree() -> None:
    scaler = Horizontal(HorizontalSettings())
    assert scaler.replicas(0.0, 10, 0.5) == 10, "it was 10 when it began"
    assert scaler.replicas(15.0, 10, 0.8) == 10
    assert scaler.replicas(300.0, 10, 0.5) == 10
    assert scaler.replicas(301.0, 10, 0.5) == 8, "8 was recommended at 15 s"
    assert scaler.replicas(316.0, 8, 0.5) == 5, "of 0.5 · 10 at 300 and 0.5 · 8 now"


def test_up_at_most_twice_as_many_or_four_more() -> None:
    scaler = Horizontal(HorizontalSettings())
    assert scaler.replicas(0.0, 1, 50.0) == 5
    assert scaler.replicas(15.0, 5, 50.0) == 10
    assert scaler.replicas(30.0, 10, 1.2) == 12


def test_scaled_intervals_keep_the_rule() -> None:
    scaled = HorizontalSettings().scaled(15)
    assert (scaled.sync_s, scaled.stabilization_s, scaled.tolerance) == (1.0, 20.0, 0.1)


def test_keda_wants_a_replica_for_each_ten_that_wait() -> None:
    """ceil(34 / 10) = 4 of a, at 0 s; nothing until 30 s; then ceil(71 / 10) = 8; 4 waiting of b are one replica."""
    turns = [
        turn(0.25, StageNow("a", 1, 0, 0, 34), StageNow("b", 1, 0, 0, 4)),
        turn(15.0, StageNow("a", 4, 0, 0, 90), StageNow("b", 1, 0, 0, 4)),
        turn(30.25, StageNow("a", 4, 0, 0, 71), StageNow("b", 1, 0, 0, 4)),
        turn(60.25, StageNow("a", 8, 0, 0, 0), StageNow("b", 1, 0, 0, 0)),
    ]
    assert told(Keda(TWO), turns) == [{"a": 4, "b": 1}, {}, {"a": 8, "b": 1}, {"a": 8, "b": 1}]


# --- Flink ------------------------------------------------------------------------------------------------------------


def at_20_a_second(at_s: float, a: int, b: int, waiting: int = 0) -> Measured:
    """20 items/s of 0.1 s at ``a`` and 0.35 s at ``b``, over 15 s."""
    return turn(at_s, StageNow("a", a, 30.0, 300, waiting), StageNow("b", b, 105.0, 300, 0), arrived=300)


def test_flink_takes_true_rates_at_70_percent() -> None:
    """A replica of a does 10/s, of b 2.857/s; 20 / 0.7 = 28.57/s: ceil(2.857) = 3 and 10."""
    assert told(FlinkScaled(TWO), [at_20_a_second(15.0, 1, 1)]) == [{"a": 3, "b": 10}]


def test_flink_leaves_what_is_within_its_boundary() -> None:
    """3 and 10 replicas do 30 and 28.57/s: between 20 / 1.0 and 20 / 0.4."""
    assert told(FlinkScaled(TWO), [at_20_a_second(15.0, 3, 10)]) == [{}]


def test_flink_works_off_what_waits() -> None:
    """300 waiting are 10/s more over 30 s: 38.57/s."""
    assert told(FlinkScaled(TWO), [at_20_a_second(15.0, 1, 1, waiting=300)]) == [{"a": 4, "b": 14}]


def test_flink_gives_back_60_percent_at_most() -> None:
    """20 of a do 200/s and are to do 28.57: 3, but no fewer than 0.4 · 20."""
    assert told(FlinkScaled(TWO), [at_20_a_second(15.0, 20, 10)]) == [{"a": 8, "b": 10}]


def test_flink_measures_anew_after_a_change() -> None:
    """Stabilization ends at 20 s, the window is full at 35 s."""
    turns = [at_20_a_second(15.0, 1, 1), *(at_20_a_second(at_s, 3, 5) for at_s in (19.0, 35.0))]
    assert told(FlinkScaled(TWO), turns) == [{"a": 3, "b": 10}, {}, {"a": 3, "b": 10}]


def test_flink_as_published_waits_for_a_quarter_of_an_hour() -> None:
    answers = told(Flink(TWO), [at_20_a_second(15.0 * step, 1, 1) for step in range(1, 61)])
    assert answers == [{}] * 59 + [{"a": 3, "b": 10}]


# --- Dynamo -----------------------------------------------------------------------------------------------------------


def test_dynamo_divides_the_rate_by_what_a_replica_does_at_the_corrected_target() -> None:
    """10/s of 0.1 s on 2 replicas: the profile expects 0.1 / (1 − 0.5) = 0.2 s, measured are 0.4: correction 2. At
    1 s / 2 a replica may be utilized by 1 − 0.1 / 0.5 = 0.8, so 8/s: ceil(10 / 8) = 2. With 0.8 s measured:
    correction 4, 0.6, 6/s: 2; with 2 s: correction 10, 0.1 / 0.1 leaves 0.05: 20."""
    for late_s, replicas in ((0.4, 2), (0.8, 2), (2.0, 20)):
        seen = turn(180.0, StageNow("a", 2, 180.0, 1800, 0), arrived=1800, elapsed_s=180.0, late_s=late_s)
        assert told(Dynamo(ONE), [seen]) == [{"a": replicas}]


def test_dynamo_says_nothing_between_its_intervals() -> None:
    seen = turn(90.0, StageNow("a", 2, 90.0, 900, 0), arrived=900, elapsed_s=90.0)
    assert told(Dynamo(ONE), [seen]) == [{}]


def test_the_next_of_a_series() -> None:
    assert predicted([5.0]) == 5.0
    assert predicted([1.0, 2.0, 3.0]) == 3.0, "too few"
    assert predicted([1.0, 2.0, 3.0, 4.0]) == pytest.approx(5.0)
    assert predicted([4.0, 4.0, 4.0, 4.0]) == 4.0
    assert predicted([1.0, 2.0, 1.0, 2.0]) == pytest.approx(1.0)


# --- what is granted --------------------------------------------------------------------------------------------------


def test_what_is_given_back_comes_first_then_one_in_turn() -> None:
    assert granted({"a": 1, "b": 9, "c": 9}, {"a": 4, "b": 2, "c": 2}, 9) == {"a": 1, "b": 4, "c": 4}
    assert granted({"b": 3}, {"a": 1, "b": 1}, 10) == {"a": 1, "b": 3}
    assert parallel({"a": 2, "b": 1}).workers == 3


@pytest.mark.parametrize("asked", [{"z": 1}, {"a": 0}, {"a": 1.5}])
def test_what_cannot_be_granted_is_said(asked: Replicas) -> None:
    with pytest.raises(RecomposeError, match="must be 1 or more of a"):
        granted(asked, {"a": 1}, 10)


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


def test_a_policy_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    policy = read_policy(f"{tmp_path}/own.py:Two")(TWO)
    assert policy.decide() == {"a": 2, "b": 2}


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
def test_what_is_no_policy_is_said(tmp_path: Path, place: str, sentence: str) -> None:
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "broken.py").write_text("1 / 0\n")
    with pytest.raises(RecomposeError, match=sentence):
        read_policy(f"{tmp_path}/{place}")
