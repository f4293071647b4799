"""Where the list of compositions limits, and not the machine, the answer says so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from compositions.model import Composition, Group, Pattern
from control.assess import Assessment
from control.decisions import Trigger
from control.objectives import objective_of
from control.settings import Settings
from control.situation import Situation
from control.strategies import make_strategy
from control.strategies.base import Settle
from control.what_if import Present, Question, outlook
from profiler.slo import Slo, SloStatus
from profiler.snapshot import Snapshot, StageProfile

LIST = tuple(
    Composition(f"wide{n}", (Group(("a",)), Group(("b",), Pattern.PAR if n > 1 else Pattern.SEQ, n))) for n in (1, 2)
)
RATE, LATENCY = Slo("throughput", "input_rate"), Slo("latency", 150.0)
MISSED = Assessment(SloStatus.VIOLATED, False, "too slow", 10.0, 3.0, saturated=True)
MORE = "more replicas of b could do it: add compositions or generate with a larger max_workers"
ENDS = f"the list ends at 3 workers; {MORE}"


def snapshot(rate: float, cores: int, cpu_s: float) -> Snapshot:
    """Stage a takes 1 ms, b 60 ms, of which ``cpu_s`` on a core."""
    stages = (StageProfile("a", 0.001, 0.001, 0.1, 0.0, 0.0, 500), StageProfile("b", 0.06, cpu_s, 0.1, 0.0, 0.0, 500))
    return Snapshot(
        100.0, "wide2", False, 0.0, 90.0, rate, 30.0, 100, None, None, 32, 0.0, 6, stages, cores, 3, 1e-4
    )  # fmt: skip


def reason(now: Snapshot, slo: Slo, stateful: frozenset[str] = frozenset()) -> str:
    strategy = make_strategy("expected-cost")
    strategy.prepare(LIST)
    asked = Situation(
        Trigger.VIOLATION, now, objective_of(slo), MISSED, LIST[1], LIST, Settings(), stateful=stateful
    )  # fmt: skip
    step = strategy.propose(asked, ())
    assert isinstance(step, Settle)
    assert step.infeasible
    return step.reason


@pytest.mark.parametrize("slo", [RATE, LATENCY])
def test_a_list_that_is_too_short_is_named_with_the_stage_and_the_cure(slo: Slo) -> None:
    assert reason(snapshot(100.0, 2, 0.0), slo).endswith(ENDS)


def test_cores_that_limit_are_not_blamed_on_the_list() -> None:
    assert "list ends" not in reason(snapshot(100.0, 2, 0.06), RATE)


def test_a_stage_that_there_is_only_one_of_is_not_asked_for() -> None:
    assert "list ends" not in reason(snapshot(100.0, 2, 0.0), RATE, frozenset("b"))


def test_what_no_replicas_can_do_is_not_promised() -> None:
    assert "list ends" not in reason(snapshot(100.0, 2, 0.0), replace(LATENCY, target=20.0))


def test_what_if_says_so_too() -> None:
    now = Present(snapshot(20.0, 2, 0.0), LIST[1], LIST, objective_of(RATE), make_strategy("expected-cost"), Settings())
    assert outlook(Question(rate_per_s=100.0), now).reason.endswith(ENDS)
