"""What the published strategy tries in our versions of its figures, and where it settles (Vogel et al., section 4)."""

from __future__ import annotations

from pathlib import Path

import pytest

from control.decisions import Decision
from lab.experiments.contender import Contender, compositions_of
from lab.experiments.spec import read_experiments
from lab.experiments.virtual import VirtualDriver

FIGURES = Path(__file__).parents[2] / "lab" / "benchmarks" / "experiments"


def decisions(figure: str) -> list[Decision]:
    """Of ``vogel``, in virtual time."""
    (experiment,) = read_experiments(FIGURES / f"{figure}.yaml", quick=True).values()
    driver = VirtualDriver(experiment, compositions_of(experiment))
    return list(driver.decisions(Contender("vogel", strategy="vogel"), experiment.input.rate(1.0)))


def tried(decision: Decision) -> list[str]:
    return [each.name for each in decision.candidates if each.measured_throughput_per_s is not None]


@pytest.mark.parametrize(
    ("figure", "between_s", "expected", "settled"),
    [
        ("fig04b_synthetic_unbalanced", (0, 60), ["3", "5", "6", "7"], "6"),
        ("fig05a_ferret_throughput", (0, 60), ["5", "8", "10", "11", "12", "13", "14"], "13"),
        ("fig05b_person_throughput", (60, 90), ["4", "5"], "4"),
        ("fig06a_ferret_latency", (100, 150), ["10", "12", "13"], "13"),
    ],
)
def test_what_is_tried_is_what_was_published(
    figure: str, between_s: tuple[float, float], expected: list[str], settled: str
) -> None:
    (decision,) = (each for each in decisions(figure) if between_s[0] <= each.at_s < between_s[1] and each.trials)
    assert tried(decision) == expected
    assert decision.to_name == settled
