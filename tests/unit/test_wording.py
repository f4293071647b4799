"""Numbers in sentences."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from compositions.wording import figure

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("value", "digits", "said"),
    [
        (12_520.0, 4, "12,520"),
        (12_520.0, 3, "12,500"),
        (1_234_567.0, 3, "1,230,000"),
        (2100.4, 4, "2100"),
        (1234.0, 3, "1230"),
        (30.09, 4, "30.09"),
        (480.0, 4, "480"),
        (0.00001234, 3, "0.0000123"),
        (0.0, 3, "0"),
        (-15_000.0, 3, "-15,000"),
        (float("inf"), 3, "inf"),
    ],
)
def test_numbers_as_people_write_them(value: float, digits: int, said: str) -> None:
    assert figure(value, digits) == said


def test_no_sentence_of_a_decision_can_have_an_exponent() -> None:
    """``:.3g`` writes 1.25e+04."""
    folders = [ROOT / "control", ROOT / "profiler", ROOT / "service" / "cli"]
    lines = [line for folder in folders for path in folder.rglob("*.py") for line in path.read_text().splitlines()]
    assert [line for line in lines if re.search(r"\{[^{}]*:\.\d+g\}", line)] == []
