"""What the benchmark of chaos counts, on streams with one fault each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from lab.benchmarks.chaos import judged
from lab.benchmarks.chaos_apps.tally import Tally
from lab.benchmarks.chaos_streams import item

GIVEN = [(partition, number) for number in range(40) for partition in "ab"]


def summed(given: Sequence[tuple[str, int]]) -> list[dict[str, Any]]:
    """What a serial run makes of them."""
    app, state, rows = Tally(), None, []
    for partition, number in given:
        row, state = app.add(item(partition, number), state)
        rows.append(row)
    return rows


def test_a_stream_that_is_whole_has_no_fault() -> None:
    told = judged(GIVEN, summed(GIVEN))
    assert (told.acknowledged, told.rows) == (80, 80)
    assert (told.lost, told.doubled, told.misordered, told.wrong) == (0, 0, 0, 0)


def test_what_was_taken_and_not_answered_is_no_fault() -> None:
    told = judged(GIVEN[:-2], summed(GIVEN))
    assert (told.lost, told.doubled, told.misordered, told.wrong) == (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (summed(GIVEN)[:30] + summed(GIVEN)[31:], {"lost": 1, "doubled": 0, "misordered": 0}),
        (summed(GIVEN)[:70], {"lost": 0, "behind": 10, "doubled": 0, "misordered": 0, "wrong": 0}),
        (summed([*GIVEN, GIVEN[-1]]), {"lost": 0, "doubled": 1, "misordered": 0, "wrong": 0}),
        (summed([*GIVEN[:4], *GIVEN[6:8], *GIVEN[4:6], *GIVEN[8:]]), {"lost": 0, "doubled": 0, "misordered": 2}),
        ([*summed(GIVEN)[:40], *summed(GIVEN[40:])], {"lost": 0, "doubled": 0, "misordered": 0, "wrong": 40}),
    ],
    ids=["lost", "behind", "doubled", "misordered", "a state that was lost"],
)
def test_each_fault_is_counted_as_what_it_is(rows: list[dict[str, Any]], expected: dict[str, int]) -> None:
    told = judged(GIVEN, rows)
    assert {name: getattr(told, name) for name in expected} == expected
