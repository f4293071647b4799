"""Nine of ten outcomes are above what is said, however predictions err."""

import random

import pytest

from control.decision_log import Calibration


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
