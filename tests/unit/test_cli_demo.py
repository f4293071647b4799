"""The demo's plan; the demo itself is an integration test."""

from collections.abc import Sequence

import pytest

from apps import registry
from control.decisions import Mode, State
from service.cli.demo import bar, plan_for
from service.schemas.compositions import ActiveComposition, Choice, Group
from service.schemas.figures import Latency, StageStatus
from service.schemas.spec import RunSpec
from service.schemas.status import Status, resting
from tests.support.bodies import having

RESTING = resting(registry.find("synthetic"), State.STABLE, RunSpec(app="synthetic"), None)
STEPS_S = (1.0, 10.0, 2.0)


def composition(groups: Sequence[Group] = ()) -> ActiveComposition:
    return ActiveComposition(name="1", notation="", workers=len(groups), groups=list(groups))


def status(times_ms: list[float], latency_ms: float | None = None) -> Status:
    names = [f"f{number}" for number in range(len(times_ms))]
    rest = {"kind": "stateless", "samples": 9, "bottleneck": False, "cpu_time_ms": None, "cv": None}
    known = {
        "stages": [StageStatus(name=n, service_time_ms=t, **rest) for n, t in zip(names, times_ms, strict=True)],
        "composition": composition([Group(stages=[name], pattern="seq", replicas=1) for name in names]),
        "latency_ms": Latency(mean=None, p50=latency_ms, p95=None, p99=None),
    }
    return having(RESTING, known)


def choices(*rates: float | None) -> list[Choice]:
    rest = {"app": "synthetic", "active": False, "predicted_latency_ms": None, **dict(composition())}
    return [Choice(predicted_throughput_per_s=rate, **rest) for rate in rates]


@pytest.mark.parametrize(
    ("rates", "high_per_s"),
    [
        pytest.param((20, 40), 24, id="beyond the first composition"),
        pytest.param((20, 25), 21.25, id="within the best"),
        pytest.param((20,), 17, id="where nothing does more than the first, within it"),
        pytest.param((None, None), 17, id="nothing is predicted"),
    ],
)
def test_the_high_input_is_beyond_the_first_composition_and_within_the_best(
    rates: tuple[float | None, ...], high_per_s: float
) -> None:
    low, watched, high, last = plan_for(status([10, 40, 50]), choices(*rates), STEPS_S).scenes
    assert [each.rate_per_s for each in (low, watched, high, last)] == pytest.approx([10, high_per_s, high_per_s, 10])
    assert [each.mode for each in (low, watched, high, last)] == [Mode.OBSERVE, Mode.OBSERVE, Mode.AUTO, Mode.AUTO]
    assert (low.seconds, watched.seconds + high.seconds, last.seconds) == STEPS_S


def test_the_objective_leaves_room_above_what_is_measured_at_rest() -> None:
    assert plan_for(status([10, 40, 50]), choices(20), STEPS_S).target_ms == 250
    assert plan_for(status([10, 40, 50], latency_ms=130), choices(20), STEPS_S).target_ms == pytest.approx(325)


def test_a_bar_marks_the_target() -> None:
    assert bar(0.5).partition("|")[0] == "█████·····"
    assert bar(2.0).partition("|")[0] == "██████████"
    assert len(bar(100.0)) == len(bar(0.0))
