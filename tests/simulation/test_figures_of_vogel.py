"""The record that the comparison with both papers of Vogel et al. rests on: it is what runs give, and the verdicts are
those that are told."""

from pathlib import Path

import pytest

from lab.experiments.contender import compositions_of, contenders
from lab.experiments.spec import read_experiments
from lab.experiments.virtual import VirtualDriver
from lab.papers.vogel.patterns import findings
from lab.papers.vogel.record import Run, recorded, run_of

FIGURES = Path(__file__).parents[2] / "lab" / "benchmarks" / "experiments"


def run(file: str, contender: str, part: str = "") -> tuple[Run, Run]:
    """A run now, and the one that was recorded."""
    name = f"{file}-{part}" if part else file
    experiment = read_experiments(FIGURES / f"{file}.yaml")[name]
    choices = compositions_of(experiment)
    who = next(each for each in contenders(experiment, choices) if each.name == contender)
    measured = VirtualDriver(experiment, choices).run(who, 0, experiment.input.rate(0.0))
    return run_of(measured), recorded().runs[name][contender][0]


RECORDED = [
    ("fig04a_synthetic_balanced", "vogel", ""),
    ("spar_fig04_07_lane_latency", "spar", "fig05_sf1"),
    ("fig02_ferret_static", "12", "b"),
    ("fig04a_synthetic_balanced", "pdp21", ""),
    ("fig04b_synthetic_unbalanced", "vogel", ""),
    ("fig04b_synthetic_unbalanced", "pdp21", ""),
    ("fig05a_ferret_throughput", "vogel", ""),
    ("fig05b_person_throughput", "vogel", ""),
    ("fig06a_ferret_latency", "vogel", ""),
    ("fig06b_person_latency", "vogel", ""),
    ("fig07_ferret_adaptive", "vogel", ""),
    ("fig08_person_adaptive", "vogel", ""),
    ("spar_fig02_lane_replicas", "22", ""),
]
"""One of each paper first, for every change."""


@pytest.mark.parametrize(
    ("file", "contender", "part"),
    [*RECORDED[:2], *(pytest.param(*each, marks=pytest.mark.long) for each in RECORDED[2:])],
)
def test_what_is_recorded_is_what_a_run_gives(file: str, contender: str, part: str) -> None:
    now, before = run(file, contender, part)
    assert now.visited == before.visited
    assert now.achieved_per_s == pytest.approx(before.achieved_per_s, rel=0.01)
    assert now.latency_ms == pytest.approx(before.latency_ms, rel=0.05)
    assert now.inside_ms == pytest.approx(before.inside_ms, rel=0.05)


NOT_REPRODUCED = {
    "2018, figure 4 to 7: violations": "not reproduced",
    "2018, figure 4: throughput": "not reproduced",
    "2018, figure 5: changes of the number of workers": "not reproduced",
    "2018, figure 5: workers added or removed": "trend only",
    "2018, figure 6: violations": "trend only",
    "2018: replicas of Lane Detection on real workers": "trend only",
    "2021, figure 2: TBB": "not run",
    "2021, figure 7: throughput relative to composition 12": "trend only",
}


def test_the_verdicts_are_those_that_are_told() -> None:
    found = {each.item: each.verdict for each in findings()}
    assert len(found) == len(findings()), "no two have one name"
    assert {item: verdict for item, verdict in found.items() if verdict != "reproduced"} == NOT_REPRODUCED


@pytest.mark.parametrize(("figure", "limit_ms"), [("fig04_sf1", 180), ("fig05_sf1", 180), ("fig07_sf1", 200)])
def test_ours_holds_the_constraint_with_half_the_changes_at_no_less_throughput(figure: str, limit_ms: int) -> None:
    """But for 5 % of the control steps. That the wider threshold violates less is a verdict."""
    runs = recorded().runs[f"spar_fig04_07_lane_latency-{figure}"]
    for ours, spar in zip(runs["two-sided"], runs["spar"], strict=True):
        assert ours.above[limit_ms] <= max(0.05, spar.above[limit_ms])
        assert ours.changes <= spar.changes / 2
        assert ours.overall_per_s >= 0.99 * spar.overall_per_s
