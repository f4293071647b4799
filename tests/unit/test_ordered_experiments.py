"""Operators in virtual time: the bound, runs by hand, the figures of Prasaad et al. in small, and their claims."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from compositions.model import StageKind
from lab.benchmarks import harness, ordered
from lab.papers.prasaad import figures, page
from lab.papers.prasaad.figures import Figure
from lab.papers.prasaad.operators import Operator, bound_per_s, serial_run, work_s
from lab.papers.prasaad.plant import Plant, Setup
from lab.papers.report import Finding, Verdict

COSTS = Path(__file__).parents[2] / "lab" / "benchmarks" / "query_costs.json"
PLAIN = Operator("plain", StageKind.STATELESS, 0.01)
STATE = replace(PLAIN, name="state", kind=StageKind.STATEFUL)
KEYED = replace(PLAIN, name="keyed", kind=StageKind.PARTITIONED, partitions=4)


def test_the_bound_is_the_workers_time_or_what_must_be_run_one_by_one() -> None:
    assert bound_per_s([PLAIN, PLAIN], 4) == pytest.approx(200)
    assert bound_per_s([PLAIN, STATE], 4) == pytest.approx(100)
    assert bound_per_s([PLAIN, KEYED], 100) == pytest.approx(400)
    assert bound_per_s([replace(PLAIN, selectivity=0.1), STATE], 4) == pytest.approx(4 / 0.011)
    assert work_s([replace(PLAIN, selectivity=3.0), PLAIN]) == pytest.approx(0.04)


def test_a_stateful_operator_has_one_worker_and_the_others_run_what_comes_before() -> None:
    trace = Plant([PLAIN, STATE], Setup("lp", workers=4)).run(range(3))
    assert [at_s for at_s, _, _ in trace.outputs] == pytest.approx([0.02, 0.03, 0.04])
    assert [value for *_, value in trace.outputs] == serial_run([PLAIN, STATE], range(3))


@pytest.mark.parametrize(
    ("name", "figure", "found_in"),
    [
        pytest.param("ct", lambda: figures.errata(1500), page._erratum, id="ct as printed starves what filters"),
        pytest.param("9", lambda: figures.skew(3000, (0.3, 2.0)), page._skew, id="hybrid bears skew"),
        pytest.param("10", lambda: figures.waiting(1200), page._waiting, id="partitioned queues make outputs wait"),
        pytest.param("12", lambda: figures.light(1500), page._sending, id="a lock costs speed"),
    ],
)
def test_a_claim_of_the_paper_is_reproduced(tmp_path: Path, name: str, figure: Any, found_in: Any) -> None:
    figure().made(1).write(tmp_path)
    found = found_in(Figure.read(tmp_path, name))
    for each in [found] if isinstance(found, Finding) else found:
        assert each.verdict == "reproduced", each.ours


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
