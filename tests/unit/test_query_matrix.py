"""A few runs of the matrix of queries; all of them: ``python -m lab.benchmarks.query_matrix``."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from apps.tpcxbb.q1 import Q1
from compositions.dynamic import SCHEDULER_NAMES
from lab.benchmarks import harness, query_matrix
from lab.benchmarks.query_matrix import ROWS, Run, cells, run, shapes
from lab.benchmarks.tpcxbb import SQL


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("streams")


@pytest.mark.parametrize("query", SQL)
def test_drawn_runs_tell_what_a_plain_loop_and_duckdb_tell(folder: Path, query: str) -> None:
    """Three of rows, and two of portions; each goes through several compositions, drawn from all that there are."""
    chance, drawn = random.Random(query), list(cells(query))
    chosen = [
        chance.choice([cell for cell in drawn if cell.bundle == size and bool(cell.stream.portion) == portions])
        for size, portions in ((1, False), (16, False), (256, False), (1, True), (16, True))
    ]
    seen, faults = run(chosen, folder)
    assert faults == []
    assert seen.runs == 5
    assert min(seen.kills, seen.switches, seen.moved) > 6


def test_every_grouping_scheduler_and_number_of_workers_has_runs() -> None:
    for query in SQL:
        bound = [each for each in shapes(query) if each.dyn is None]
        free = {(each.dyn.scheduler, each.dyn.workers) for each in shapes(query) if each.dyn is not None}
        assert len(free) == len(SCHEDULER_NAMES) * 16
        assert {each.workers for each in bound} == set(range(1, 17))
        assert {each.grouping for each in bound} == {each.grouping for each in query_matrix.bound(query)}
    assert {cell.bundle for cell in cells("q15")} == set(ROWS)


def test_a_run_that_loses_a_key_is_told(folder: Path) -> None:
    """A stage that forgets a state."""
    cell = next(each for each in cells("q1") if each.shape.dyn is not None and each.bundle == 16)
    count = Q1.count

    def forgetful(self: Q1, value: Any, state: Any) -> Any:
        result, new = count(self, value, state)
        return result, None if len(value) > 2 else new

    Run(cell, folder)  # what a plain loop tells is kept
    with patch.object(Q1, "count", forgetful):
        _, faults = run([cell], folder)
    assert len(faults) == 1
    assert faults[0].startswith(cell.name)
    assert "where a plain loop tells" in faults[0]


def test_from_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert harness.run(query_matrix.measure, ["--query", "q3", "--part", "7/600"]) == 0
    told = capsys.readouterr().out
    assert "2 of 765 runs, seed 0" in told
    assert "differ: 0" in told
