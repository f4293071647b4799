"""The paper's six steps on the paper's own applications."""

from dataclasses import replace
from pathlib import Path

import pytest

from compositions.document.loader import load
from compositions.model import Composition, Stage
from control.assess import Assessment
from control.decisions import CandidateStatus, Trigger
from control.objectives import objective_of
from control.settings import Settings
from control.situation import Situation
from control.strategies.base import Settle, Trial, Try
from control.strategies.published import Vogel
from profiler.slo import Slo, SloStatus
from tests.support.figures import NOTHING_SEEN, latency, profile

SHIPPED = Path(__file__).parent.parent.parent / "compositions"
MISSED = Assessment(SloStatus.VIOLATED, False, "too slow", 80.0, 2.0)
MET = Assessment(SloStatus.MET, True, "fine", 160.0, 0.1)


def shipped(app: str, *stages: str) -> tuple[Composition, ...]:
    return load((SHIPPED / f"{app}.yaml").read_text(), {app: [Stage(s) for s in stages]}).compositions


SYNTHETIC = shipped("synthetic", "f1", "f2", "f3")
FERRET = shipped("ferret", "segment", "extract", "vectorize", "rank")


def situation(
    compositions: tuple[Composition, ...],
    times_ms: dict[str, float],
    active: str = "1",
    seen: Assessment = MISSED,
    trigger: Trigger = Trigger.VIOLATION,
    rate: float = 160.0,
) -> Situation:
    snapshot = replace(
        NOTHING_SEEN, now_s=100.0, composition=active, window_start_s=90.0, input_rate_per_s=rate, delivered=800,
        throughput_per_s=80.0, latency=latency(2.0), inside=latency(2.0), queued=32, queued_change_per_s=0.0, cores=24,
        stages=tuple(profile(name, ms / 1e3) for name, ms in times_ms.items()),
    )  # fmt: skip
    chosen = next(c for c in compositions if c.name == active)
    objective = objective_of(Slo("throughput", "input_rate"))
    return Situation(trigger, snapshot, objective, seen, chosen, compositions, Settings())


def tried_by(strategy: Vogel, at: Situation, results: dict[str, Assessment]) -> tuple[list[str], Settle]:
    """Lets the strategy try until it settles; ``results`` by name, missing ones miss the SLO."""
    trials: list[Trial] = []
    while isinstance(step := strategy.propose(at, tuple(trials)), Try):
        assert step.limit_s == 5.0
        trials.append(Trial(step.composition, results.get(step.composition.name, MISSED), 5.0, "time up"))
        at = replace(at, active=step.composition)
    assert isinstance(step, Settle)
    return [trial.composition.name for trial in trials], step


def test_balanced_stages_have_no_bottleneck_so_the_most_replicated_is_activated_at_once() -> None:
    step = Vogel().propose(situation(SYNTHETIC, {"f1": 8, "f2": 8, "f3": 8}), ())
    assert isinstance(step, Settle)
    assert step.composition.name == "7"


def test_ferret_takes_13_for_its_merged_stages_and_a_later_violation_tags_an_additional_bottleneck() -> None:
    strategy, times_ms = Vogel(), {"segment": 2.0, "extract": 0.2, "vectorize": 4.0, "rank": 60.0}
    rank_parallel = ["5", "8", "10", "11", "12", "13", "14"]
    tried, choice = tried_by(strategy, situation(FERRET, times_ms, rate=20), dict.fromkeys(rank_parallel, MET))
    assert (tried, choice.composition.name) == (rank_parallel, "13")
    later = situation(FERRET, times_ms, active="13", rate=20)
    tried, choice = tried_by(strategy, later, {"13": MET, "12": MET})
    assert (tried, choice.composition.name) == (["10", "12", "13"], "13")


def test_when_none_meets_the_slo_the_best_value_is_kept_and_called_infeasible() -> None:
    better = replace(MISSED, throughput_per_s=100.0)
    _, choice = tried_by(Vogel(), situation(SYNTHETIC, {"f1": 4, "f2": 12, "f3": 8}), {"5": better})
    assert (choice.composition.name, choice.infeasible) == ("5", True)
    assert [each.name for each in choice.candidates if each.status is CandidateStatus.REJECTED] == ["1", "2", "4"]


@pytest.mark.parametrize(("rate", "expected"), [(60.0, "1"), (110.0, "1"), (200.0, None)])
def test_a_fallen_rate_leads_to_the_cheapest_that_keeps_up(rate: float, expected: str | None) -> None:
    at = situation(SYNTHETIC, {"f1": 8, "f2": 8, "f3": 8}, "7", MET, Trigger.INPUT_RATE, rate=rate)
    step = Vogel().propose(at, ())
    assert step.composition.name == expected if isinstance(step, Settle) else expected is None
