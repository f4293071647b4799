"""Strategy ``expected-cost`` as users get it: the product's loop on the plant, in virtual time."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from compositions.model import Composition, Group, Pattern, Room, Stage, StageKind
from control.assess import Assessment
from control.decisions import Trigger
from control.objectives import objective_of
from control.settings import Settings
from control.situation import Situation
from control.strategies import base as strategies
from control.strategies import make_strategy
from control.strategies.base import Settle, Stay
from control.strategies.expected_cost import goals_of
from control.what_if import Present, Question, outlook
from profiler.slo import Slo, SloStatus
from profiler.snapshot import Demand, InputNow, LatencyFrom, Snapshot
from tests.support.figures import NOTHING_SEEN, latency, profile

STAGES = (Stage("a"), Stage("b"))
ONE = Composition("sequential", (Group(("a",)), Group(("b",))))
WIDE = Composition("wide", (Group(("a", "b"), Pattern.PAR, 6),))
WIDER = Composition("wider", (Group(("a", "b"), Pattern.PAR, 12),))
WAITED = replace(latency(0.5, 100), percentiles_s=(0.5,) * 44)


def proposals(
    compositions: tuple[Composition, ...],
    *,
    generated: bool,
    rate: int = 10,
    active: Composition = ONE,
    room: Room | None = None,
    slo: Slo = Slo("latency", 1600.0, statistic="share", share=0.95),  # noqa: B008  # frozen
) -> Iterator[Settle | Stay]:
    """What is proposed at each turn of 50 s in which ``rate`` items of 0.4 s come each second and none waits long."""
    strategy, objective = make_strategy("expected-cost"), objective_of(slo, LatencyFrom.DUE)
    for turn in range(1, 201):
        came = rate * turn // 4
        times = (("a", 0.1), ("b", 0.3))
        seen = replace(
            NOTHING_SEEN, now_s=0.25 * turn, composition=active.name, input_rate_per_s=rate, throughput_per_s=rate,
            delivered=100, latency=WAITED, inside=WAITED, queued_change_per_s=0.0, in_flight=2, cores=16,
            stages=tuple(profile(name, s, done=came, worked_s=came * s) for name, s in times),
            input=InputNow(arrived=came), demand=Demand(came, came, 0, 0.0),
        )  # fmt: skip
        strategy.observe(seen, objective, STAGES)
        situation = Situation(
            Trigger.INPUT_RATE, seen, objective, Assessment(SloStatus.MET, True, "met"), active, compositions,
            Settings(), generated=generated, room=room or {},
        )  # fmt: skip
        yield strategy.propose(situation, ())


def test_where_nobody_wrote_a_list_it_composes_what_is_needed() -> None:
    first = next(each for each in proposals((ONE, WIDE, WIDER), generated=True) if isinstance(each, Settle))
    assert 4 < first.composition.workers < 9
    assert "the input rate is 10 items/s, and an item takes 400 ms" in first.reason
    assert "which has the lowest expected cost" in first.reason
    assert "the objective allows 5.0 %" in first.reason
    assert first.candidates[0].reason.startswith("costs ")


def test_of_a_users_list_it_takes_the_cheapest_that_will_do_by_its_name() -> None:
    first = next(each for each in proposals((ONE, WIDE, WIDER), generated=False) if isinstance(each, Settle))
    assert first.composition is WIDE
    assert first.candidates[0].predicted_in_time is not None
    mean = proposals((ONE, WIDE, WIDER), generated=False, slo=Slo("latency", 1600.0))
    assert {each.candidates[0].predicted_in_time for each in mean if isinstance(each, Settle)} == {None}


def test_it_composes_nothing_that_the_nodes_cannot_hold() -> None:
    """Ten items a second of 0.3 s keep three workers with stage b busy."""
    plentiful = proposals((ONE, WIDE, WIDER), generated=True, room={("b",): 8})
    assert any(isinstance(each, Settle) and each.composition.group_of("b").replicas > 3 for each in plentiful)
    short = proposals((ONE, WIDE, WIDER), generated=True, room={("b",): 2})
    settled = [each for each in short if isinstance(each, Settle)]
    assert settled
    assert all(each.composition.group_of("b").replicas <= 2 for each in settled)
    assert "the nodes have room for 2 workers with b" in settled[-1].reason


def test_it_says_when_nothing_that_may_be_chosen_will_do() -> None:
    *_, last = proposals((ONE, WIDE), generated=False, rate=40, active=WIDE)
    assert isinstance(last, Stay)
    assert "no composition with at most 6 workers is expected to meet the objective" in last.reason


def test_of_a_throughput_that_varies_by_chance_the_mean_counts() -> None:
    strategy, objective = make_strategy("expected-cost"), objective_of(Slo("throughput", 90.0))
    for turn in range(400):
        seen = replace(snapshot(100.0, 0.0, turn / 4), queued=500, throughput_per_s=80.0 if turn % 2 else 110.0)
        strategy.observe(seen, objective, STAGES)
        asked = Situation(Trigger.INPUT_RATE, seen, objective, MISSED, LIST[1], LIST, Settings())
        reason = strategy.propose(asked, ()).reason
    assert "of the items of the last 5 min were late" not in reason


LIST = (Composition("wide1", ONE.groups), Composition("wide2", (Group(("a",)), Group(("b",), Pattern.PAR, 2))))
RATE, LATENCY = Slo("throughput", "input_rate"), Slo("latency", 150.0)
MISSED = Assessment(SloStatus.VIOLATED, False, "too slow", 10.0, 3.0)
ENDS = "the list of compositions is the limit; a composition with more workers would help"


def snapshot(rate: float, cpu_s: float, at_s: float = 20.0) -> Snapshot:
    """On two cores; stage a takes 1 ms, b 60 ms, of which ``cpu_s`` on a core."""
    done = int(rate * at_s)
    times = (("a", 0.001, 0.001), ("b", 0.06, cpu_s))
    return replace(
        NOTHING_SEEN, now_s=at_s, composition="wide2", input_rate_per_s=rate, throughput_per_s=30.0, delivered=100,
        queued=32, queued_change_per_s=0.0, in_flight=6, cores=2, input=InputNow(arrived=done, set_per_s=rate),
        stages=tuple(profile(name, s, cpu_s, samples=500, done=done, worked_s=s * done) for name, s, cpu_s in times),
    )  # fmt: skip


def knowing(rate: float, cpu_s: float, slo: Slo, stages: tuple[Stage, ...] = STAGES) -> strategies.Strategy:
    """A strategy that has watched the app for 20 s."""
    strategy = make_strategy("expected-cost")
    for turn in range(81):
        strategy.observe(snapshot(rate, cpu_s, turn / 4), objective_of(slo), stages)
    return strategy


def reason(slo: Slo, cpu_s: float = 0.0, stages: tuple[Stage, ...] = STAGES) -> str:
    """Why nothing that may be chosen carries 100 items/s."""
    asked = Situation(Trigger.VIOLATION, snapshot(100.0, cpu_s), objective_of(slo), MISSED, LIST[1], LIST, Settings())
    step = knowing(100.0, cpu_s, slo, stages).propose(asked, ())
    assert step.infeasible
    return step.reason


@pytest.mark.parametrize(("slo", "of"), [(RATE, "late items"), (LATENCY, "mean latency")])
def test_a_list_that_is_too_short_is_named_with_the_cure(slo: Slo, of: str) -> None:
    assert f"expected {of}" in (told := reason(slo))
    assert told.endswith(ENDS)


def test_a_mean_and_a_rate_are_missed_beyond_the_threshold_and_a_percentile_beyond_the_target() -> None:
    slos = Slo("latency", 400.0), Slo("latency", 400.0, 0.2, "p95"), Slo("throughput", 90.0)
    mean, p95, rate = (goals_of(objective_of(slo))[0] for slo in slos)
    assert (mean.bound_s, p95.bound_s, p95.tolerated.bound_s) == pytest.approx((0.48, 0.4, 0.48))
    assert rate.share * (rate.per_s or 0.0) == pytest.approx(72.0)


def test_cores_that_limit_are_not_blamed_on_the_list() -> None:
    assert reason(RATE, cpu_s=0.06).endswith("the items need 6.1 cores, but there are 2; more would help")


def test_a_stage_that_there_is_only_one_of_is_not_asked_for() -> None:
    stages = (Stage("a"), Stage("b", StageKind.STATEFUL))
    assert "b keeps a state, which limits its workers; only a faster b would help" in reason(RATE, stages=stages)


def test_what_if_says_so_too() -> None:
    strategy = knowing(20.0, 0.0, RATE)
    now = Present(snapshot(20.0, 0.0), LIST[1], LIST, objective_of(RATE), strategy, Settings())
    assert outlook(Question(rate_per_s=100.0), now).reason.endswith(ENDS)
