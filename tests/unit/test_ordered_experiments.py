"""Operators in virtual time: the bound, runs by hand, the figures of Prasaad et al. in small, and their claims."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from compositions.model import StageKind
from lab.benchmarks import harness, ordered
from lab.papers.prasaad import figures, page
from lab.papers.prasaad.figures import Figure, keyed, normal_bounds, zipf_bounds
from lab.papers.prasaad.operators import Operator, bound_per_s, read_costs, serial_run, work_s
from lab.papers.prasaad.plant import Plant, Setup
from lab.papers.prasaad.runs import Run, run
from lab.papers.prasaad.station import Station
from lab.papers.report import Finding, Verdict

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
    assert [at_s for at_s, _ in trace.fronts] == pytest.approx([0.011, 0.017]), "the scheduler answers one at a time"


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
    pipelines = read_costs(COSTS)
    assert {name: [each.kind.value[:5] for each in found] for name, found in pipelines.items()} == {
        "q1": ["state", "parti", "parti", "state"],
        "q2": ["state", "parti", "state", "parti", "state"],
        "q3": ["state", "parti", "parti"],
        "q4": ["state", "parti", "state", "state"],
        "q15": ["state", "state", "parti"],
    }
    assert pipelines["q15"][-1].partitions == 10


def test_a_source_waits_while_so_many_inputs_do() -> None:
    trace = Plant([PLAIN], Setup("lp", workers=1, ingress=3)).run(range(20), rate_per_s=1000.0)
    assert trace.most_waiting == [3]
    assert len(trace.outputs) == 20


def test_a_state_that_is_brought_to_another_worker_takes_time() -> None:
    station = Station(replace(KEYED, partitions=1), "hybrid", 8, workers=2, move_s=0.005)
    took_s = []
    for worker in (0, 1, 1, 0):
        station.put(0, 7)
        work = station.take(worker)
        assert work is not None
        station.worklist.done(worker, work.entry.partition)
        took_s.append(work.seconds)
    assert took_s == pytest.approx([0.01, 0.015, 0.01, 0.015])


# --- figures and findings --------------------------------------------------------------------------------------------


def found(name: str, figure: Figure, folder: Path) -> dict[str, Finding]:
    """Return the findings about a figure, read from its file."""
    figure.write(folder)
    make = {"9": page._skew, "10": page._waiting, "ct": page._erratum}.get(name)
    read = Figure.read(folder, name)
    every = [make(read)] if make else page._sending(read)
    return {each.item: each for each in every}


def test_ct_as_printed_starves_what_filters(tmp_path: Path) -> None:
    """Selectivities 1, 0.01, 1 and equal costs: the erratum of equation 3."""
    (finding,) = found("ct", figures.errata(1500).made(1), tmp_path).values()
    assert finding.verdict == "reproduced", finding.ours


def test_hybrid_bears_skew_that_halves_partitioned(tmp_path: Path) -> None:
    (finding,) = found("9", figures.skew(3000, (0.3, 2.0)).made(1), tmp_path).values()
    assert finding.verdict == "reproduced", finding.ours


def test_partitioned_queues_make_outputs_wait(tmp_path: Path) -> None:
    (finding,) = found("10", figures.waiting(1200).made(1), tmp_path).values()
    assert finding.verdict == "reproduced", finding.ours


def test_a_lock_costs_speed(tmp_path: Path) -> None:
    speed, cost = found("12", figures.light(1500).made(1), tmp_path).values()
    assert (speed.verdict, cost.verdict) == ("reproduced", "reproduced"), (speed.ours, cost.ours)


def test_two_workers_seldom_meet_at_the_ring() -> None:
    """What two real cores can show of figure 12 at the most."""
    made = figures.light(1500, (2,)).made(1)
    gain = made.median(page.rate, "non-blocking", 2) / made.median(page.rate, "lock", 2)
    assert gain == pytest.approx(1.0, abs=0.01)


def of(rates: Sequence[float]) -> list[Run]:
    return [Run(rate, 1.0, 1000.0, 1.0, (1,)) for rate in rates]


@pytest.mark.parametrize(
    ("hybrid", "verdict"),
    [
        ((900.0, 910.0, 905.0), "reproduced"),
        ((800.0, 790.0, 810.0), "not reproduced"),
        ((799.0, 850.0, 900.0), "not reproduced"),
        ((801.0, 850.0, 900.0), "not reproduced"),
        ((800.0, 800.0, 800.0), "not reproduced"),
    ],
)
def test_a_difference_within_the_spread_of_the_runs_is_none(hybrid: Sequence[float], verdict: str) -> None:
    """In the third case the median is 1.06, and one run of three is below; in the fourth none is, but just."""
    rows = {
        (query, queue, 16): of(hybrid if queue == "hybrid" else (800.0, 800.0, 800.0))
        for query in ("q1", "q2", "q3", "q4", "q15") for queue in ("hybrid", "partitioned")
    }  # fmt: skip
    throughput, _ = page._queues(Figure("11", "", ("query", "queue", "workers"), rows))
    assert throughput.verdict == verdict


def test_the_recorded_runs_give_a_finding_about_every_figure() -> None:
    findings = page.findings()
    told = " ".join(each.item for each in findings)
    assert all(f"figure {number}" in told for number in range(8, 15))
    assert {each.verdict for each in findings} <= set(get_args(Verdict))
    assert all(each.why for each in findings if each.verdict != "reproduced")
    assert all(each.command.startswith("python -m lab.benchmarks.") for each in findings)


def test_the_most_frequent_key_is_the_least_that_a_partition_can_have() -> None:
    """Of 5,000 keys after Zipf with exponent 1.1 the first has 16 %, and what shares its partition comes to that."""
    first = 1 / sum(rank**-1.1 for rank in range(1, 5001))
    for count, more in ((100, 0.04), (16, 0.12)):
        bounds = zipf_bounds(5000, count)
        heaviest = keyed(1e-4, count, bounds).heaviest_share
        assert bounds[-1] == pytest.approx(1.0)
        assert first <= heaviest <= first + more


def test_a_figure_is_written_drawn_and_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordered, "STATE_KEYS", (10,))
    costs = tmp_path / "costs.json"
    costs.write_text(json.dumps({"queries": {"q1": json.loads(COSTS.read_text())["queries"]["q1"]}}))
    told = ["--inputs", "60", "--costs", str(costs), "--out", str(tmp_path / "out")]
    assert harness.run(ordered.measure, told) == 0
    names = ["8", "8-ask", "8-source", "9", "moved", "10", "11", "12", "13", "14"]
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "figure-ct.csv", "figure-11-keys.csv", *(f"figure-{name}.{form}" for name in names for form in ("csv", "png")),
    }  # fmt: skip
    again = Figure.read(tmp_path / "out", "8")
    assert again.varies == ("query", "scheduler", "workers")
    assert again.seen("workers") == [2, 4, 8, 12, 16]
    assert all(len(runs) == 3 for runs in again.rows.values())
