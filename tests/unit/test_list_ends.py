"""Where the list of compositions limits, and not the machine, the answer says so."""

from dataclasses import replace

import pytest

from compositions.model import Composition, Group, Pattern, Stage, StageKind
from control.assess import Assessment
from control.decisions import Trigger
from control.objectives import objective_of
from control.settings import Settings
from control.situation import Situation
from control.strategies import make_strategy
from control.strategies.base import Settle, Stay, Strategy
from control.what_if import Present, Question, outlook
from profiler.slo import Slo, SloStatus
from profiler.snapshot import InputNow, Snapshot, StageProfile

LIST = tuple(
    Composition(f"wide{n}", (Group(("a",)), Group(("b",), Pattern.PAR if n > 1 else Pattern.SEQ, n))) for n in (1, 2)
)
STAGES = (Stage("a"), Stage("b"))
RATE, LATENCY = Slo("throughput", "input_rate"), Slo("latency", 150.0)
MISSED = Assessment(SloStatus.VIOLATED, False, "too slow", 10.0, 3.0)
ENDS = "the list of compositions is the limit; one with more workers would help"


def snapshot(rate: float, cpu_s: float, at_s: float = 20.0) -> Snapshot:
    """On two cores; stage a takes 1 ms, b 60 ms, of which ``cpu_s`` on a core."""
    done = int(rate * at_s)
    stages = (
        StageProfile("a", 0.001, 0.001, 0.1, 0.0, 0.0, 500, done=done, worked_s=0.001 * done),
        StageProfile("b", 0.06, cpu_s, 0.1, 0.0, 0.0, 500, done=done, worked_s=0.06 * done),
    )
    return Snapshot(
        at_s, "wide2", False, 0.0, 0.0, rate, 30.0, 100, None, None, 32, 0.0, 6, stages, 2, 3, 1e-4,
        InputNow(arrived=done, set_per_s=rate),
    )  # fmt: skip


def knowing(rate: float, cpu_s: float, slo: Slo, stages: tuple[Stage, ...] = STAGES) -> Strategy:
    """A strategy that has watched the app for 20 s."""
    strategy = make_strategy("expected-cost")
    for turn in range(81):
        strategy.observe(snapshot(rate, cpu_s, turn / 4), objective_of(slo), stages)
    return strategy


def reason(slo: Slo, cpu_s: float = 0.0, stages: tuple[Stage, ...] = STAGES) -> str:
    """Why nothing that may be chosen carries 100 items/s."""
    asked = Situation(Trigger.VIOLATION, snapshot(100.0, cpu_s), objective_of(slo), MISSED, LIST[1], LIST, Settings())
    step = knowing(100.0, cpu_s, slo, stages).propose(asked, ())
    assert isinstance(step, Settle | Stay)
    assert step.infeasible
    return step.reason


@pytest.mark.parametrize("slo", [RATE, LATENCY])
def test_a_list_that_is_too_short_is_named_with_the_cure(slo: Slo) -> None:
    assert reason(slo).endswith(ENDS)


def test_cores_that_limit_are_not_blamed_on_the_list() -> None:
    assert reason(RATE, cpu_s=0.06).endswith("the items need 6.1 cores and there are 2; more cores would help")


def test_a_stage_that_there_is_only_one_of_is_not_asked_for() -> None:
    stages = (Stage("a"), Stage("b", StageKind.STATEFUL))
    assert reason(RATE, stages=stages).endswith(
        "b keeps a state, so it has too few workers; it would have to take less time"
    )


def test_what_no_replicas_can_do_is_not_promised() -> None:
    assert not reason(replace(LATENCY, target=20.0)).endswith(ENDS)


def test_what_if_says_so_too() -> None:
    strategy = knowing(20.0, 0.0, RATE)
    now = Present(snapshot(20.0, 0.0), LIST[1], LIST, objective_of(RATE), strategy, Settings())
    assert outlook(Question(rate_per_s=100.0), now).reason.endswith(ENDS)
