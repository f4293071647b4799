"""Operators in virtual time: the bound, runs by hand, the figures of Prasaad et al. in small, and their claims. The
page about the papers is what the records say; SPBench's own source follows algorithm 1 of Garcia et al. 2023."""

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import pytest

from apps.rates import Fixed, Rate
from compositions.model import StageKind
from datapipe.sources.sources import Arrival
from lab.benchmarks import harness, ordered
from lab.experiments.contender import Measurement, Point
from lab.experiments.spbench import FrequencyManager
from lab.papers import garcia
from lab.papers.page import PAPERS, text
from lab.papers.prasaad import figures, page
from lab.papers.prasaad.figures import Figure
from lab.papers.prasaad.operators import Operator, bound_per_s, serial_run, work_s
from lab.papers.prasaad.plant import Plant, Setup
from lab.papers.report import Finding, Verdict

COSTS = Path(__file__).parents[2] / "lab" / "benchmarks" / "query_costs.json"
PLAIN = Operator("plain", StageKind.STATELESS, 0.01)
STATE = replace(PLAIN, name="state", kind=StageKind.STATEFUL)
KEYED = replace(PLAIN, name="keyed", kind=StageKind.PARTITIONED, partitions=4)
DOCS = Path(__file__).parents[2] / "docs"
POINT = Point(at_s=0.0, rate_per_s=5.0, throughput_per_s=4.0, latency_ms=100.0, composition="2", workers=2, met=None)


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


def test_the_page_is_what_was_recorded() -> None:
    written = (DOCS / "research" / "papers.md").read_text(encoding="utf-8")
    assert written == text(DOCS / "images" / "papers", "../images/papers"), "recompose experiment --all writes it"


def test_every_picture_of_the_page_is_there() -> None:
    names = {path.name for path in (DOCS / "images" / "papers").glob("*.png")}
    assert names == {path.replace("/", "-") for paper in PAPERS for path in paper.pictures.values()}


def stored(folder: Path, name: str, latencies_ms: list[float]) -> None:
    """A run of samples of a quarter of a second, with a spike from 5 to 6 s."""
    samples = tuple(
        replace(POINT, at_s=number / 4, latency_ms=each, rate_per_s=50.0 if 20 <= number <= 24 else 5.0)
        for number, each in enumerate(latencies_ms)
    )
    run = Measurement("2", 0, samples, 4.0, 5.0, 100.0, None, 0, 0, 2.0)
    place = folder / name
    (place / "raw").mkdir(parents=True)
    (place / "raw" / "2-0.json").write_text(json.dumps(run.as_json()))
    (place / "results.json").write_text(json.dumps({"rows": {"2": {"shape_error": 0.05}}}))


@pytest.mark.parametrize("told", ["reproduced", "not reproduced", "trend only, unlike the paper for ferret"])
def test_a_spike_that_stays_in_the_latency_is_told(told: str, tmp_path: Path) -> None:
    for app in ("bzip2", "face_recognizer", "ferret"):
        lasts = 12 if told == "not reproduced" or app in told else 1
        stored(tmp_path, f"patterns_{app}-spike", [100.0] * 20 + [400.0] * (4 + lasts) + [100.0] * 40)
    (found,) = (each for each in garcia.findings(tmp_path) if each.item == "figure 16")
    assert ", ".join([found.verdict, *found.ours.split(", ")[1:]]) == told


def test_what_was_not_run_is_said(tmp_path: Path) -> None:
    found = garcia.findings(tmp_path)
    assert {each.verdict for each in found} == {"not run"}
    assert found[1].why.startswith("no results of spbench_fig06_sequential-bzip2")
    assert garcia.Finding(**asdict(found[0])) == found[0]


class Reading:
    """A source that takes ``work_s`` to read an item, on a clock whose sleeps take ``overshoot_s`` too long."""

    def __init__(self, rate: Rate, work_s: float = 0.0, overshoot_s: float = 0.0) -> None:
        self.now_s, self.work_s, self.overshoot_s = 100.0, work_s, overshoot_s
        self.slept_s: list[float] = []
        self.manager = FrequencyManager(self, 1.0, clock=lambda: self.now_s)
        self.manager.wait = self.sleep
        self.manager.set_pattern(rate)

    def sleep(self, seconds: float) -> bool:
        self.slept_s.append(seconds)
        self.now_s += seconds + self.overshoot_s * (seconds > 0)
        return False

    def __iter__(self) -> Iterator[Arrival]:
        for number in range(20):
            began_s, self.now_s = self.now_s, self.now_s + self.work_s
            yield Arrival(began_s, number)

    def close(self) -> None: ...


def test_the_sleep_is_the_delay_less_what_the_source_took() -> None:
    """The example of section 3.2: at 2 items/s, 150 ms of an item leave 350 ms of the 500."""
    reading = Reading(Fixed(2.0), work_s=0.15)
    begins_s = [arrival.arrived_s for arrival in reading.manager]
    assert [later - before for before, later in pairwise(begins_s)] == pytest.approx([0.5] * 19)
    assert reading.slept_s == pytest.approx([0.0] + [0.35] * 20)
