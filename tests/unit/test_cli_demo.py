"""The demo's plan and its tally; the demo itself is an integration test."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

import pytest

from apps import registry
from control.decisions import State
from profiler.slo import SloStatus
from service.cli.demo_course import AppClient, Course, DemoView, Plan, plan_for
from service.cli.demo_tally import Tally
from service.schemas.compositions import ActiveComposition, Choice, Group
from service.schemas.figures import Items, Latency, StageStatus
from service.schemas.results import Result
from service.schemas.slo import SloInForce
from service.schemas.spec import RunSpec
from service.schemas.status import Status, resting
from tests.support.bodies import having

RESTING = resting(registry.find("synthetic"), State.STABLE, RunSpec(app="synthetic"), None)


def composition(name: str, groups: Sequence[Group] = ()) -> ActiveComposition:
    return ActiveComposition(name=name, notation="", workers=len(groups), groups=list(groups))


def status(times_ms: list[float], latency_ms: float | None = None) -> Status:
    names = [f"f{number}" for number in range(len(times_ms))]
    rest = {"kind": "stateless", "samples": 9, "bottleneck": False, "cpu_time_ms": None, "cv": None}
    groups = [Group(stages=[name], pattern="seq", replicas=1) for name in names]
    known = {
        "stages": [StageStatus(name=n, service_time_ms=t, **rest) for n, t in zip(names, times_ms, strict=True)],
        "composition": composition("1", groups),
        "latency_ms": Latency(mean=None, p50=latency_ms, p95=None, p99=None),
    }
    return having(RESTING, known)


def choices(*rates: float | None) -> list[Choice]:
    rest = {"app": "synthetic", "active": False, "predicted_latency_ms": None, **dict(composition("1"))}
    return [Choice(predicted_throughput_per_s=rate, **rest) for rate in rates]


def test_high_input_is_beyond_the_first_composition_and_within_the_best() -> None:
    plan = plan_for(status([10, 40, 50]), choices(20, 40))
    assert plan == Plan(low_per_s=10, high_per_s=pytest.approx(24), target_ms=250)
    assert plan_for(status([10, 40, 50]), choices(20, 25)).high_per_s == pytest.approx(21.25)


def test_where_nothing_does_more_than_the_first_high_input_is_within_it() -> None:
    assert plan_for(status([10, 40, 50]), choices(20)).high_per_s == pytest.approx(17)
    assert plan_for(status([10, 40, 50]), choices(None, None)).high_per_s == pytest.approx(17)


def test_the_objective_leaves_room_above_what_is_measured_at_rest() -> None:
    assert plan_for(status([10, 40, 50], latency_ms=130), choices(20)).target_ms == pytest.approx(325)


def ended(accepted: int) -> Status:
    items = Items(accepted=accepted, delivered=accepted, failed=0, shed=0)
    return having(RESTING, {"items": items})


class PlayedApp:
    """Two items, which are out when it is stopped."""

    name = "synthetic"

    def start(self, request: object) -> None: ...

    def statuses(self) -> Iterator[Status]:
        return iter([ended(0)] * 3)

    def stop(self) -> Status:
        return ended(2)

    def results(self, after: int, limit: int) -> list[Result]:
        return [Result(serial=serial, value=1) for serial in range(after + 1, 2)]

    def decisions(self, limit: int) -> list[object]:
        return []


def test_an_interrupted_demo_delivers_what_was_accepted_and_sums_up() -> None:
    told = Course(cast(AppClient, PlayedApp()), DemoView("synthetic"), 0.0, (1.0, 1.0, 1.0), lambda: True).run({})
    assert dict(told.rows())["items accepted, delivered"] == "2, 2"
    assert told.damage is None


def tally(*serials: int, accepted: int = 5) -> Tally:
    made = Tally()
    made.take(Result(serial=serial, value=1) for serial in serials)
    made.finish(ended(accepted), [])
    return made


@pytest.mark.parametrize(
    ("serials", "damage"),
    [
        ((0, 1, 2, 3, 4), None),
        ((0, 1, 3, 4), "1 items lost"),
        ((1, 2, 3, 4), "1 items lost"),
        ((0, 1, 2), "2 items lost"),
        ((0, 1, 2, 2, 3, 4), "1 items doubled"),
        ((0, 2, 1, 3, 4), "1 items misordered"),
        ((), "5 items lost"),
    ],
)
def test_damage_is_seen_in_the_serial_numbers(serials: tuple[int, ...], damage: str | None) -> None:
    assert tally(*serials).damage == damage


def test_a_dead_letter_is_damage_too() -> None:
    made = Tally()
    made.take([Result(serial=0, error="boom")])
    made.finish(ended(1), [])
    assert made.damage == "1 items failed"


def test_the_summary_counts_what_was_seen() -> None:
    made = tally(0, 1, 2, 3, 4)
    for name, verdict, rate in (
        ("1", "met", 10.0),
        ("7", "violated", 20.0),
        ("7", "met", 30.0),
        ("1", "unknown", None),
    ):
        known = {
            "composition": composition(name),
            "slo": SloInForce(metric="latency", target=400.0, threshold=0.2, statistic="mean", bound=480.0),
            "slo_status": SloStatus(verdict),
            "throughput_per_s": rate,
            "latency_ms": Latency(mean=100.0, p50=None, p95=None, p99=None),
        }
        made.see(having(RESTING, known))
    rows = dict(made.rows())
    assert rows["compositions used"] == "1 → 7 → 1"
    assert rows["SLO met"] == "67% of the time with an SLO"
    assert rows["throughput, mean"] == "20.00/s"
    assert rows["items lost, doubled, misordered"] == "0, 0, 0"


def test_results_are_fetched_once_a_second() -> None:
    made = Tally()
    assert [made.due(now_s) for now_s in (10.0, 10.5, 11.0, 11.9, 12.5)] == [True, False, True, False, True]
