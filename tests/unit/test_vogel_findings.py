"""Verdicts on printed figures, by hand, and what is kept of a run."""

import pytest

from lab.experiments.contender import Measurement, Point
from lab.papers.report import less, near, shown, worst
from lab.papers.vogel.record import run_of


def test_an_order_counts_when_the_means_differ_by_more_than_both_spreads() -> None:
    assert less([1.0, 2.0], [4.0, 5.0]) == "reproduced"
    assert less([1.0, 2.0], [1.5, 3.0]) == "trend only", "0.75 apart, spread 1.06"
    assert less([1.0], [1.0]) == "not reproduced"
    assert worst("reproduced", "not reproduced", "trend only") == "not reproduced"
    assert shown([1.0, 3.0], 1) == "2.0 ± 1.4"


@pytest.mark.parametrize(("found", "verdict"), [(-5.0, "reproduced"), (-2.0, "trend only"), (0.5, "not reproduced")])
def test_a_printed_difference_may_be_off_by_a_third(found: float, verdict: str) -> None:
    assert near(found, -6.3) == verdict


def test_what_is_kept_of_a_run() -> None:
    """Half seconds up to 24 s; from 22 s on one worker more and 190 instead of 150 ms inside."""
    points = tuple(
        Point(
            at_s,
            10.0,
            10.0,
            200.0,
            "b" if at_s > 22 else "a",
            1 + (at_s > 22),
            True,
            inside_ms=150.0 + 40 * (at_s > 22),
        )
        for at_s in (number / 2 for number in range(1, 49))
    )
    run = run_of(Measurement("vogel", 0, points, 10.0, 10.0, 200.0, 1.0, 1, 0, 1.0, 150.0))
    assert run.above == {180: 0.5, 200: 0.0}
    assert (run.changes, run.moved, run.visited) == (1, 1, ((0.5, "a"), (22.5, "b")))
