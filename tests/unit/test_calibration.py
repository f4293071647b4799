"""Nine of ten outcomes are above what is said, however predictions err."""

import random
from types import SimpleNamespace

import pytest

from control.assess import Assessment
from control.decision_log import Calibration, Hindsight
from control.decisions import Candidate, CandidateStatus, Decision, Trigger
from profiler.slo import SloStatus


def both_sides(draw, number):
    return draw.gauss(0, 0.05)


def hopes_too_much(draw, number):
    return -draw.expovariate(20)


def seldom_and_much(draw, number):
    return -0.4 * draw.random() if draw.random() < 0.15 else 0.0


def another_bias_now_and_then(draw, number):
    return draw.gauss(-0.1 if number % 800 < 400 else 0.05, 0.02)


@pytest.mark.parametrize("error", [both_sides, hopes_too_much, seldom_and_much, another_bias_now_and_then])
def test_nine_of_ten_outcomes_are_above(error):
    draw, calibration, above = random.Random(1), Calibration(), []
    for number in range(4000):
        predicted = draw.uniform(0.6, 0.9)
        measured = predicted + error(draw, number)
        least = calibration.at_least(predicted)
        if least is not None:
            above.append(measured >= least)
        calibration.note(predicted, measured)
    assert 0.85 <= sum(above) / len(above) <= 0.95


def test_nothing_is_said_before_enough_is_known():
    calibration = Calibration()
    for measured in (0.8, 0.85, 0.9, 0.95, 1.0, 0.9, 0.9, 0.9):
        calibration.note(0.9, measured)
        assert calibration.at_least(0.9) is None
    calibration.note(0.9, 0.7)
    assert calibration.at_least(0.9) == pytest.approx(0.7)
    assert calibration.at_least(0.1) == 0.0


def decided(number, at_s):
    chosen = Candidate("wide", 5, CandidateStatus.CHOSEN, "", 20.0, 0.3, predicted_in_time=0.98)
    return Decision(number, at_s, Trigger.SLO, "narrow", "wide", "", (chosen,))


def test_a_decision_that_another_one_followed_is_compared_by_what_was_in_time_alone():
    hindsight = Hindsight(10.0)
    for number, at_s in ((1, 0.0), (2, 4.0)):
        hindsight.expect(decided(number, at_s))
    latency = SimpleNamespace(within=lambda limit_s: 0.9 if limit_s == 0.4 else 0.0)
    seen = Assessment(SloStatus.MET, True, "met", 19.0, 0.35)
    for now_s in (9.0, 11.0, 13.0, 15.0, 17.0):
        hindsight.compare(SimpleNamespace(now_s=now_s, latency=latency), seen, 0.4)
    first, second = hindsight.taken()
    assert (first.chosen.measured_in_time, first.chosen.measured_throughput_per_s) == (0.9, None)
    assert (second.chosen.measured_in_time, second.chosen.measured_throughput_per_s) == (0.9, 19.0)
    assert first.outcome.endswith("another decision followed before its window was full")
    assert "98.0 % in time, measured 19 items/s and 350 ms, 90.0 % in time; met" in second.outcome
