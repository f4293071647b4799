"""The page about the papers is what the records say, and a figure of SPBench is judged by what its text says."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from lab.experiments.contender import Measurement, Point
from lab.papers import garcia
from lab.papers.page import PAPERS, text

DOCS = Path(__file__).parents[2] / "docs"
POINT = Point(at_s=0.0, rate_per_s=5.0, throughput_per_s=4.0, latency_ms=100.0, composition="2", workers=2, met=None)


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


@pytest.mark.parametrize(("lasts", "verdict"), [(1, "reproduced"), (12, "not reproduced")])
def test_a_spike_that_stays_in_the_latency_is_told(lasts: int, verdict: str, tmp_path: Path) -> None:
    course = [100.0] * 20 + [400.0] * (4 + lasts) + [100.0] * 40
    for app in ("bzip2", "face_recognizer", "ferret"):
        stored(tmp_path, f"patterns_{app}-spike", course)
    (found,) = (each for each in garcia.findings(tmp_path) if each.item == "figure 16")
    assert found.verdict == verdict, found.ours


def test_what_was_not_run_is_said(tmp_path: Path) -> None:
    found = garcia.findings(tmp_path)
    assert {each.verdict for each in found} == {"not run"}
    assert found[1].why.startswith("no results of spbench_fig06_sequential-bzip2")
    assert garcia.Finding(**asdict(found[0])) == found[0]
