"""What a change takes, as measured."""

from __future__ import annotations

from control.forecast.load.arrivals import QUICK_S, Delays
from control.load_anticipation import LoadAnticipation
from profiler.snapshot import InputNow, Snapshot


def after(*took_s: float, cold: bool = False, in_place: bool = True) -> Delays:
    delays = Delays(1.5)
    for count, each in enumerate(took_s):
        delays.left(10.0 * count, cold=cold)
        delays.arrived(10.0 * count + each, in_place=in_place)
    return delays


def test_before_anything_was_measured_it_is_as_set() -> None:
    assert (after().quick_s, after().start_s) == (QUICK_S, 1.5)
    assert after(0.25, 0.25).quick_s == QUICK_S, "a turn to ask, and a turn to see it"


def test_on_a_busy_machine_the_forecast_looks_as_far_as_two_changes_take() -> None:
    assert after(0.9, 1.0, 0.8, 1.1, 1.0).quick_s == 2.0
    assert after(0.25, 0.25, 0.25, 0.25, 0.25, 9.0).quick_s == QUICK_S, "one that was held up tells of nothing"


def test_what_workers_take_to_start_is_told_apart() -> None:
    cold = after(4.0, 4.0, cold=True)
    assert (cold.quick_s, cold.start_s) == (QUICK_S, 4.0)


def test_a_drain_or_what_never_arrived_is_not_counted() -> None:
    assert after(3.0, in_place=False).quick_s == QUICK_S
    lost = after()
    lost.left(0.0, cold=False)
    lost.left(20.0, cold=False)
    lost.arrived(20.25, in_place=True)
    assert lost.quick_s == QUICK_S


def test_a_rise_is_provided_for_as_far_ahead_as_changes_take() -> None:
    def expected(lookout: LoadAnticipation) -> float:
        for turn in range(120):
            rate = 10.0 + 2.0 * turn / 4
            seen = lookout.seen(
                Snapshot(
                    turn / 4, "1", False, 0.0, 0.0, rate, rate, 80, None, None, 0, 0.0, 1, (), 4, 1, 3e-4,
                    InputNow((), rate),
                ),
                0.25,
            )  # fmt: skip
        assert seen.outlook is not None
        return seen.outlook.expected_per_s

    quick, slow = LoadAnticipation(0.0, 10.0), LoadAnticipation(0.0, 10.0)
    slow.delays = after(1.0, 1.0)
    assert expected(slow) - expected(quick) > 2.0, "1.5 s more of 2 items/s each second"
