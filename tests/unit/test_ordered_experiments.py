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
from lab.papers.prasaad.figures import Figure
from lab.papers.prasaad.operators import Operator, bound_per_s, serial_run, work_s
from lab.papers.prasaad.plant import Plant, Setup
from lab.papers.prasaad.runs import Run
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


# --- by hand ---------------------------------------------------------------------------------------------------------


def test_a_stateful_operator_has_one_worker_and_the_others_run_what_comes_before() -> None:
    trace = Plant([PLAIN, STATE], Setup("lp", workers=4)).run(range(3))
    assert [at_s for at_s, _, _ in trace.outputs] == pytest.approx([0.02, 0.03, 0.04])
    assert [value for *_, value in trace.outputs] == serial_run([PLAIN, STATE], range(3))


# --- costs -----------------------------------------------------------------------------------------------------------


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


def of(rates: Sequence[float]) -> list[Run]:
    return [Run(rate, 1.0, 1000.0, 1.0, (1,)) for rate in rates]


def test_the_recorded_runs_give_a_finding_about_every_figure() -> None:
    findings = page.findings()
    told = " ".join(each.item for each in findings)
    assert all(f"figure {number}" in told for number in range(8, 15))
    assert {each.verdict for each in findings} <= set(get_args(Verdict))
    assert all(each.why for each in findings if each.verdict != "reproduced")
    assert all(each.command.startswith("python -m lab.benchmarks.") for each in findings)


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
