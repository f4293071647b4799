"""The demo's plan and its tally; the demo itself is an integration test."""

from __future__ import annotations

from typing import Any

import pytest

from service.cli.demo import Plan, plan_for
from service.cli.demo_tally import Tally


def status(times_ms: list[float], latency_ms: float | None = None) -> dict[str, Any]:
    names = [f"f{number}" for number in range(len(times_ms))]
    return {
        "stages": [{"name": n, "service_time_ms": t} for n, t in zip(names, times_ms, strict=True)],
        "composition": {"name": "1", "groups": [{"stages": [name], "replicas": 1} for name in names]},
        "latency_ms": {"p50": latency_ms},
    }


def choices(*rates: float | None) -> list[dict[str, Any]]:
    return [{"predicted_throughput_per_s": rate} for rate in rates]


def test_high_input_is_beyond_the_first_composition_and_within_the_best() -> None:
    plan = plan_for(status([10, 40, 50]), choices(20, 40))
    assert plan == Plan(low_per_s=10, high_per_s=pytest.approx(24), target_ms=250)
    assert plan_for(status([10, 40, 50]), choices(20, 25)).high_per_s == pytest.approx(21.25)


def test_where_nothing_does_more_than_the_first_high_input_is_within_it() -> None:
    assert plan_for(status([10, 40, 50]), choices(20)).high_per_s == pytest.approx(17)
    assert plan_for(status([10, 40, 50]), choices(None, None)).high_per_s == pytest.approx(17)


def test_the_objective_leaves_room_above_what_is_measured_at_rest() -> None:
    assert plan_for(status([10, 40, 50], latency_ms=130), choices(20)).target_ms == pytest.approx(325)


ENDED = {"items": {"accepted": 5, "delivered": 5}, "switches": 1}


def tally(*serials: int, accepted: int = 5) -> Tally:
    made = Tally()
    made.take({"serial": serial, "value": 1} for serial in serials)
    made.finish({"items": {"accepted": accepted, "delivered": accepted}, "switches": 0}, [])
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
    made.take([{"serial": 0, "error": "boom"}])
    made.finish({"items": {"accepted": 1, "delivered": 1}, "switches": 0}, [])
    assert made.damage == "1 items failed"


def test_the_summary_counts_what_was_seen() -> None:
    made = tally(0, 1, 2, 3, 4)
    for name, verdict, rate in (
        ("1", "met", 10.0),
        ("7", "violated", 20.0),
        ("7", "met", 30.0),
        ("1", "unknown", None),
    ):
        made.see(
            {
                "composition": {"name": name},
                "slo": {"metric": "latency"},
                "slo_status": verdict,
                "throughput_per_s": rate,
                "latency_ms": {"mean": 100.0},
            }
        )
    rows = dict(made.rows())
    assert rows["compositions used"] == "1 → 7 → 1"
    assert rows["SLO met"] == "67% of the time with an SLO"
    assert rows["throughput, mean"] == "20.00/s"
    assert rows["items lost, doubled, misordered"] == "0, 0, 0"


def test_results_are_fetched_once_a_second() -> None:
    made = Tally()
    assert [made.due(now_s) for now_s in (10.0, 10.5, 11.0, 11.9, 12.5)] == [True, False, True, False, True]
