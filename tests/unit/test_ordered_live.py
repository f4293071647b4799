"""The figures on real cores: what workers that compute give, what is compared and when a difference is one. Speeds:
``python -m lab.benchmarks.ordered --on threads``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from lab.benchmarks import harness, ordered
from lab.benchmarks.crew import Crew, WallTime
from lab.benchmarks.harness import median_interval
from lab.benchmarks.ordered import Pair, latency, rate, slowed
from lab.papers.prasaad import figures
from lab.papers.prasaad.figures import Case
from lab.papers.prasaad.operators import serial_run, work_s
from lab.papers.prasaad.plant import Plant
from lab.papers.prasaad.runs import Run


@pytest.fixture(scope="module")
def crew() -> Iterator[Crew]:
    with closing(Crew("threads", 2)) as made:
        yield made


def outputs(case: Case, crew: Crew) -> list[int]:
    with closing(WallTime(crew)) as timeline:
        trace = Plant(case.operators, case.setup, timeline).run(range(40))
    return [value for _, _, value in trace.outputs]


@pytest.mark.parametrize("case", [
    *figures.skew(0, (0.2,), (0.5,), 2).cases, *figures.light(0, (2,)).cases, *figures.many_outputs(0, (2,)).cases,
], ids=lambda case: str(case.varied))  # fmt: skip
def test_workers_that_compute_give_what_a_serial_run_gives(case: Case, crew: Crew) -> None:
    assert outputs(case, crew) == serial_run(case.operators, range(40))


def test_a_run_that_is_cut_short_leaves_its_workers_free(crew: Crew) -> None:
    case = figures.light(0, (2,)).cases[0]
    long = replace(case, operators=[replace(case.operators[0], cost_s=0.02)])
    with closing(WallTime(crew)) as timeline:
        trace = Plant(long.operators, long.setup, timeline).run(range(40), until_s=0.01)
    assert trace.front < 40
    assert outputs(case, crew) == serial_run(case.operators, range(40))


def test_a_slowed_case_keeps_the_shares_of_its_operators() -> None:
    case = figures.many_outputs(0, (2,)).cases[0]
    slow = slowed(case)
    factor = slow.operators[0].cost_s / case.operators[0].cost_s
    assert work_s(slow.operators) == pytest.approx(51 * ordered.TUPLE_S)
    assert slow.setup.send_s == pytest.approx(factor * case.setup.send_s)
    assert slow.setup.settings.slice_s == pytest.approx(factor * case.setup.settings.slice_s)


def of(per_s: float, late_ms: float = 1.0) -> Run:
    return Run(per_s, late_ms, 100.0, 1.0, (1,))


def test_what_is_expected_of_two_workers_is_that_of_the_simulation() -> None:
    found = ordered.expected(figures.dear(0, (2,)))
    assert Pair("", rate, "non-blocking", "lock", True).ratios([found]) == [pytest.approx(1.1, abs=0.03)]


def test_ratios_are_taken_within_a_round_of_runs_that_differ_in_nothing_else() -> None:
    first = {("q1", "ct"): of(30.0), ("q1", "lp"): of(20.0), ("q2", "ct"): of(8.0), ("q2", "lp"): of(4.0)}
    second = {("q1", "ct"): of(90.0), ("q1", "lp"): of(90.0)}
    assert Pair("", rate, "ct", "lp", True).ratios([first, second]) == [1.5, 2.0, 1.0]
    assert Pair("", rate, "ct", "lp", True, lambda varied: varied[0] == "q2").ratios([first, second]) == [2.0]
    nothing = {("q1", "ct"): of(0.0, float("inf")), ("q1", "lp"): of(4.0, 8.0)}
    assert Pair("", rate, "ct", "lp", True).ratios([nothing]) == [0.25]
    assert Pair("", latency, "ct", "lp", False).ratios([nothing]) == [1e3 * ordered.CASE_S / 8]


@pytest.mark.parametrize(
    ("more", "ratios", "verdict"),
    [
        (True, [1.1, 1.2] * 4, "as published"),
        (True, [0.8, 1.2] * 4, "undecided"),
        (True, [0.8, 0.9] * 4, "not so"),
        (False, [0.8, 0.9] * 4, "as published"),
        (False, [1.1, 1.2] * 4, "not so"),
        (None, [0.99, 1.01] * 4, "as published"),
        (None, [0.8, 1.2] * 4, "undecided"),
        (None, [1.1, 1.2] * 4, "not so"),
        (True, [1.1] * 5, "undecided"),
    ],
)
def test_a_difference_is_one_when_the_interval_is_on_one_side(
    more: bool | None, ratios: list[float], verdict: str
) -> None:
    assert Pair("", rate, "ct", "lp", more).verdict(ratios) == verdict


@pytest.mark.parametrize(("count", "interval"), [(1, (0, 0)), (5, (0, 4)), (6, (0, 5)), (10, (1, 8)), (20, (5, 14))])
def test_the_interval_of_a_median_is_that_of_the_sign_test(count: int, interval: tuple[int, int]) -> None:
    """Tables of the sign test: of 10 the second and the ninth (0.979), of 20 the sixth and the fifteenth (0.959)."""
    assert median_interval([float(each) for each in reversed(range(count))]) == interval


def test_a_figure_is_made_and_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(ordered, "CASE_S", 0.03)
    harness.run(ordered.measure, ["--on", "threads", "--figure", "12", "--seconds", "0", "--json"])
    (table,) = json.loads(capsys.readouterr().out)["tables"]
    assert table["title"].startswith("Figure 12, 2 workers on threads")
    row = table["rows"][0]
    assert row["the paper"] == "flag has more throughput than lock"
    assert row["virtual time"] == pytest.approx(1.0, abs=0.005)
    assert (row["pairs"], row["here"]) == (2, "undecided")
