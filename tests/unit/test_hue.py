"""The colours of compositions."""

import re
from pathlib import Path

import pytest

from datapipe.report.plots import BANDS, HUES, hue_of

STYLE = Path(__file__).parents[2] / "service" / "dashboard" / "style.css"


@pytest.mark.parametrize(
    ("name", "hue"), [("1", 0), ("12", 11), ("13", 12), ("17", 0), ("01", 7), ("wide", 9), ("größe", 2)]
)
def test_numbers_count_and_names_are_hashed(name: str, hue: int) -> None:
    assert hue_of(name) == hue


def test_the_page_has_as_many_colours() -> None:
    light = re.findall(r"--hue[0-9]+: light-dark\((#[0-9a-f]+)", STYLE.read_text())
    assert tuple(light) == BANDS
    assert len(light) == HUES
