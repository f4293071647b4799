"""Operators in virtual time: the bound, runs by hand, the figures of Prasaad et al. in small, and their claims."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compositions.errors import RecomposeError
from compositions.model import StageKind
from lab.benchmarks import harness, ordered
from lab.papers.prasaad import claims, figures
from lab.papers.prasaad.figures import Figure, keyed, normal_bounds
from lab.papers.prasaad.measured import read_costs
from lab.papers.prasaad.operators import Operator, bound_per_s, serial_run, work_s
from lab.papers.prasaad.plant import Plant, Setup
from lab.papers.prasaad.runs import Run, run

COSTS = Path(__file__).parents[2] / "lab" / "benchmarks" / "query_costs.json"
PLAIN = Operator("plain", StageKind.STATELESS, 0.01)
STATE = replace(PLAIN, name="state", kind=StageKind.STATEFUL)
KEYED = replace(PLAIN, name="keyed", kind=StageKind.PARTITIONED, partitions=4)


# --- operators -------------------------------------------------------------------------------------------------------


def test_the_bound_is_the_workers_time_or_what_must_be_run_one_by_one() -> None:
    assert bound_per_s([PLAIN, PLAIN], 4) == pytest.approx(200)
    assert bound_per_s([PLAIN, STATE], 4) == pytest.approx(100)
    assert bound_per_s([PLAIN, KEYED], 100) == pytest.approx(400)
    assert bound_per_s([replace(PLAIN, selectivity=0.1), STATE], 4) == pytest.approx(4 / 0.011)
    assert work_s([replace(PLAIN, selectivity=3.0), PLAIN]) == pytest.approx(0.04)


def test_shares_of_skewed_keys() -> None:
    operator = keyed(0.01, 4, (0.1, 0.7, 0.9, 1.0))
    assert operator.heaviest_share == pytest.approx(0.6)
    drawn = [operator.partition(value) for value in range(4000)]
    assert [drawn.count(each) / 4000 for each in range(4)] == pytest.approx([0.1, 0.6, 0.2, 0.1], abs=0.03)


def test_ranges_under_a_normal_law_are_cut_at_one() -> None:
    assert normal_bounds(0.5, 4)[1] == pytest.approx(0.5)
    assert normal_bounds(0.5, 4)[3] == pytest.approx(1.0)
    assert normal_bounds(100.0, 4) == pytest.approx((0.25, 0.5, 0.75, 1.0), abs=1e-3)


def test_means_are_those_asked_for() -> None:
    operator = replace(PLAIN, selectivity=2.25, cv=0.4)
    given = [len(operator.outputs(value, 0)[0]) for value in range(4000)]
    times = [operator.time_s(value) for value in range(4000)]
    assert set(given) == {2, 3}
    assert sum(given) / 4000 == pytest.approx(2.25, abs=0.05)
    assert sum(times) / 4000 == pytest.approx(0.01, rel=0.02)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"cost_s": 0.0}, "operator 'plain': cost_s is 0.0; it must be above 0"),
        ({"selectivity": -1.0}, "selectivity is -1.0; it must be at least 0"),
        ({"partitions": 0}, "partitions is 0; it must be at least 1"),
        ({"kind": "partitioned"}, "kind is 'partitioned'; it must be a StageKind"),
        ({"cv": 0.7}, r"cv is 0.7; it must be in \[0, 0.58\]"),
        ({"bounds": (1.0,)}, "bounds must be as many as partitions"),
    ],
)
def test_what_is_no_operator_is_refused(wrong: Mapping[str, float], told: str) -> None:
    with pytest.raises(RecomposeError, match=told):
        replace(PLAIN, **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"workers": 0}, "workers is 0; it must be a whole number, 1 or more"),
        ({"bundle": 1.5}, "bundle is 1.5; it must be a whole number, 1 or more"),
        ({"ring_slots": -1}, "ring_slots is -1; it must be a whole number, 1 or more"),
        ({"send_s": float("nan")}, "send_s is nan; it must be a number, 0 or more"),
        ({"crowding": -0.5}, "crowding is -0.5; it must be a number, 0 or more"),
        ({"sending": "locks"}, "sending is 'locks'; it must be non-blocking or lock"),
    ],
)
def test_what_is_no_setup_is_refused(wrong: Mapping[str, Any], told: str) -> None:
    """Without workers no output came, and nobody was told."""
    with pytest.raises(RecomposeError) as refused:
        Setup(**wrong)
    assert str(refused.value) == told


# --- by hand ---------------------------------------------------------------------------------------------------------


def test_two_workers_run_a_stateless_operator_in_half_the_time() -> None:
    for workers, end_s in ((1, 0.04), (2, 0.02), (4, 0.01)):
        trace = Plant([PLAIN], Setup("lp", workers=workers)).run(range(4))
        assert trace.fronts[-1] == (pytest.approx(end_s), 4)
        assert trace.busy_s == [pytest.approx(0.04)]


def test_a_stateful_operator_has_one_worker_and_the_others_run_what_comes_before() -> None:
    trace = Plant([PLAIN, STATE], Setup("lp", workers=4)).run(range(3))
    assert [at_s for at_s, _, _ in trace.outputs] == pytest.approx([0.02, 0.03, 0.04])
    assert [value for *_, value in trace.outputs] == serial_run([PLAIN, STATE], range(3))


def test_what_is_filtered_away_holds_nothing_up() -> None:
    none = replace(PLAIN, selectivity=0.0)
    trace = Plant([none, STATE], Setup("lp", workers=2)).run(range(4))
    assert trace.outputs == []
    assert trace.fronts[-1] == (pytest.approx(0.02), 4)


def test_while_one_sends_others_wait_for_the_lock_but_not_for_the_flag() -> None:
    """Two workers end at 10 ms; sending takes 5 ms an output. By the lock the second cannot go on before 15 ms."""
    lock, flag = (
        Plant([PLAIN], Setup("lp", workers=2, sending=way, send_s=0.005)).run(range(4), until_s=0.019)
        for way in ("lock", "non-blocking")
    )  # fmt: skip
    assert lock.begun_s == pytest.approx([0.0, 0.0, 0.015, 0.0]), "4 is not begun before 20 ms"
    assert flag.begun_s == pytest.approx([0.0, 0.0, 0.01, 0.0]), "3 is begun at once; the other sends both, to 20 ms"


def test_a_question_and_a_crowd_take_time() -> None:
    trace = Plant([PLAIN], Setup("lp", workers=2, ask_s=0.001, crowding=0.5)).run(range(2))
    assert [at_s for at_s, _ in trace.fronts] == pytest.approx([0.011, 0.016])


def test_a_run_counts_what_is_done_while_inputs_arrive() -> None:
    found = run([PLAIN], Setup("lp", workers=4), inputs=400)
    assert (found.share, found.worker_us) == (pytest.approx(1.0, rel=0.03), pytest.approx(10_000, rel=0.03))
    assert found.latency_ms == pytest.approx(10, rel=0.01)
    late = run([PLAIN], Setup("lp", workers=4), inputs=400, load=0.5)
    assert late.throughput_per_s == pytest.approx(200, rel=0.03)


def test_a_run_in_which_nothing_ends_is_told_as_such() -> None:
    found = run([replace(PLAIN, cost_s=10.0)], Setup("lp", workers=4), inputs=2)
    assert (found.throughput_per_s, found.latency_ms, found.worker_us) == (0.0, float("inf"), float("inf"))


# --- costs -----------------------------------------------------------------------------------------------------------


def test_costs_are_read() -> None:
    pipelines = read_costs(COSTS).pipelines
    assert {name: [each.kind.value[:5] for each in found] for name, found in pipelines.items()} == {
        "q1": ["state", "parti", "parti", "state"],
        "q2": ["state", "parti", "state", "parti", "state"],
        "q3": ["state", "parti", "parti"],
        "q4": ["state", "parti", "state", "state"],
        "q15": ["state", "state", "parti"],
    }
    assert pipelines["q15"][-1].partitions == 10


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecomposeError, match=r"none\.json: No such file"):
        read_costs(tmp_path / "none.json")
    wrong = tmp_path / "wrong.json"
    wrong.write_text('{"queries": {"q1": [{"name": "a", "kind": "sorted"}]}}')
    with pytest.raises(RecomposeError, match=r"wrong\.json: queries\.q1\.0\.kind: Input should be 'stateless'"):
        read_costs(wrong)


# --- figures and claims ----------------------------------------------------------------------------------------------


def test_ct_as_printed_starves_what_filters() -> None:
    """Selectivities 1, 0.01, 1 and equal costs: the erratum of equation 3."""
    found = claims.of_errata(figures.errata(1500).made())
    assert found.met, found.measured


def test_hybrid_bears_skew_that_halves_partitioned() -> None:
    found = claims.of_skew(figures.skew(1500, (0.4, 2.0)).made())
    assert found.met, found.measured


def test_partitioned_queues_make_outputs_wait() -> None:
    found = claims.of_waiting(figures.waiting(1200).made())
    assert found.met, found.measured


def test_a_lock_costs_speed() -> None:
    found = claims.of_sending(figures.light(1500).made())
    assert found.met, found.measured


def test_two_workers_meet_at_the_ring_only_where_sending_is_dear() -> None:
    """What two real cores can show of figure 12 at the most."""
    gains = [
        made.of("non-blocking", 2).throughput_per_s / made.of("lock", 2).throughput_per_s
        for made in (figures.light(1500, (2,)).made(), figures.dear(1500, (2,)).made())
    ]
    assert gains == [pytest.approx(1.0, abs=0.01), pytest.approx(1.1, abs=0.02)]


def test_a_claim_that_does_not_hold_says_so() -> None:
    good, bad = (Run(rate, 1.0, 1000.0, 1.0, (1,)) for rate in (900.0, 100.0))
    figure = Figure("11", "", (), [(("q1", "hybrid", 16), bad), (("q1", "partitioned", 16), good)])
    assert claims.of_queues(figure) == claims.Claim(
        "hybrid at least partitioned in throughput, each query, 16 workers", "q1 0.11", False
    )


def test_all_figures_are_written(tmp_path: Path) -> None:
    costs = tmp_path / "costs.json"
    costs.write_text(json.dumps({"queries": {"q1": json.loads(COSTS.read_text())["queries"]["q1"]}}))
    told = ["--inputs", "60", "--costs", str(costs), "--out", str(tmp_path / "out")]
    assert harness.run(ordered.measure, told) == 0
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "report.md", "figure-ct.csv", "figure-8-half.csv", *(f"figure-{number}.csv" for number in range(8, 15)),
    }  # fmt: skip
    assert "| claim | measured | met |" in (tmp_path / "out" / "report.md").read_text()
