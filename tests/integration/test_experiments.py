"""Experiments from their files to their report."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from browser import CHROMIUM, DRIVER
from click.testing import CliRunner, Result
from dashboard_rig import page

from lab.experiments import conduct as conducting
from lab.experiments import live
from lab.experiments.virtual import VirtualDriver
from service.cli import main

pytestmark = pytest.mark.usefixtures("logging_as_it_is")
FIGURES = Path(__file__).parents[2] / "lab" / "benchmarks" / "experiments"
SMALL: dict[str, Any] = {
    "title": "small", "shows": "a test", "app": "synthetic", "slo": "throughput=input_rate",
    "profile": {"f1": {"ms": 16}, "f2": {"ms": 16}, "f3": {"ms": 16}}, "input": {"steps": [[0, 30], [20, 80]]},
    "strategies": ["expected-cost"], "static": ["1"], "duration_s": 40, "warm_up_s": 25,
}  # fmt: skip
BRIEF: dict[str, Any] = {"input": {"steps": [[0, 20]]}, "duration_s": 4, "warm_up_s": 1}
"""Where it does not matter what runs."""


def written(folder: Path, **changes: Any) -> Path:
    file = folder / "small.yaml"
    document = {name: value for name, value in {**SMALL, **changes}.items() if value is not None}
    file.write_text(yaml.safe_dump(document))
    return file


def experiment(*words: Any, code: int = 0) -> Result:
    done = CliRunner().invoke(main, ["experiment", *map(str, words)])
    assert done.exit_code == code, done.output
    return done


def results(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "small" / "results.json").read_text())
    return found


def test_the_strategy_beats_the_composition_that_was_kept_and_the_same_file_gives_the_same(tmp_path: Path) -> None:
    file = written(tmp_path)
    for name in ("once", "again"):
        experiment(file, "--out", tmp_path / name)
    once, again = results(tmp_path / "once"), results(tmp_path / "again")
    assert once == again
    assert once["rows"]["1"]["achieved_per_s"] == pytest.approx(62.5, rel=0.05), "three stages of 16 ms"
    assert once["rows"]["expected-cost"]["achieved_per_s"] == pytest.approx(80, rel=0.05)
    assert once["rows"]["expected-cost"]["settled_on"] == ["7"]
    assert once["against_best_static"]["expected-cost"]["throughput"] > 1.2
    assert (tmp_path / "once" / "small" / "expected-cost.png").read_bytes().startswith(b"\x89PNG")


def test_what_was_interrupted_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, out, ran = written(tmp_path, **BRIEF, repetitions=2), tmp_path / "out", []
    true_run = VirtualDriver.run

    def run(self: Any, contender: Any, repetition: int, rate: Any) -> Any:
        ran.append((contender.name, repetition))
        if len(ran) == 3:
            raise KeyboardInterrupt
        return true_run(self, contender, repetition, rate)

    monkeypatch.setattr(conducting.VirtualDriver, "run", run)
    experiment(file, "--out", out, code=130)
    assert not (out / "small" / "results.json").exists()
    experiment(file, "--out", out)
    assert ran == [("1", 0), ("expected-cost", 0), ("1", 1), ("1", 1), ("expected-cost", 1)]
    assert set(results(out)["rows"]) == {"1", "expected-cost"}


def test_runs_of_another_file_are_not_mixed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    experiment(written(tmp_path, **BRIEF, strategies=[]), "--out", out)
    changed = written(tmp_path, **BRIEF | {"duration_s": 5}, strategies=[])
    refused = experiment(changed, "--out", out, code=1)
    assert "holds runs with experiment" in refused.output
    assert "they cannot be compared" in refused.output
    experiment(changed, "--out", out, "--fresh")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"app": "nope"}, "unknown app 'nope'"),
        ({"static": ["99"]}, "synthetic has no composition '99'"),
        ({"strategies": [], "static": []}, "nothing to run"),
        ({"slo": None}, "strategies need an slo"),
        ({"slo": "speed=3"}, "SLO 'speed=3' is not understood"),
        ({"profile": None}, "the simulated driver needs a profile"),
        ({"profile": {"f1": {"ms": 8}}}, "the profile is of f1; synthetic has f1, f2, f3"),
        ({"input": {}}, "give either steps"),
        ({"input": {"steps": [[0, 1]], "share": True}}, "shares need a composition"),
        ({"warm_up_s": 50}, "leaves nothing of duration_s"),
        ({"sped": 1}, "sped"),
    ],
)
def test_faults_of_a_file_are_sentences(tmp_path: Path, changes: dict[str, Any], sentence: str) -> None:
    assert sentence in experiment(written(tmp_path, **changes), "--out", tmp_path / "out", code=1).output


def test_an_experiment_on_real_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "CALIBRATE_S", 3.0)
    monkeypatch.setattr(live, "CALIBRATE_FROM_S", 1.0)
    half, out = {"steps": [[0, 0.5]], "share": True, "composition": "1"}, tmp_path / "out"
    changes = {"driver": "local", "options": {"compute": "wait"}, "input": half, "duration_s": 3, "warm_up_s": 1}
    experiment(written(tmp_path, **changes), "--out", out)
    found = results(out)
    assert found["metadata"]["machine"]
    assert found["rows"]["1"]["achieved_per_s"] > 0
    raw = json.loads((out / "small" / "raw" / "1-0.json").read_text())
    assert raw["samples"][-1]["cpu_percent"] is not None


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(480)
def test_all_figures_quickly(tmp_path: Path) -> None:
    """Every figure of the papers, in virtual time, and one report that shows them."""
    experiment("--quick", "--out", tmp_path, FIGURES)
    unbalanced = json.loads((tmp_path / "fig04b_synthetic_unbalanced" / "results.json").read_text())["rows"]
    assert (unbalanced["vogel"]["settled_on"], unbalanced["vogel"]["trials"]) == (["6"], 4), "as published"
    assert unbalanced["expected-cost"]["trials"] <= 2
    person = json.loads((tmp_path / "workers_person_latency" / "results.json").read_text())["rows"]["expected-cost"]
    assert person["settled_on"] == ["1"]
    assert person["met_share"] >= 0.95
    report = tmp_path / "report.html"
    assert "://" not in report.read_text(), "it needs nothing from elsewhere"
    assert report.stat().st_size < 16e6  # a mail takes it; 12.8 MB with all figures
    if CHROMIUM and DRIVER:
        with page(f"file://{tmp_path}", tmp_path / "profile") as seen:
            seen.open(report.name)
            shown = seen.run("return [...document.images].map(i => [i.complete, i.naturalWidth])")
            assert len(shown) >= len(list(FIGURES.glob("*.yaml"))) - 1, "one needs a file that may not be there"
            assert all(complete and width > 100 for complete, width in shown)
