"""What the mixed run takes for a difference, without which it could not fail."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from compositions.model import TransitionKind
from lab.benchmarks.mixed.apps.shaped import Kind, stages_of
from lab.benchmarks.mixed.drawn import Out, drawn_composition, plain_loop, resized
from lab.benchmarks.mixed_run import compared, drawn
from service.runner.wiring.result_buffer import ResultBatch

KINDS: tuple[Kind, ...] = ("wait", "repeat", "halve", "pairs")
Spoil = Callable[[list[str]], list[str]]


def lines_of(expected: list[Out]) -> list[str]:
    """As the sink writes them."""
    runs = [
        ResultBatch(serial, [out], "ValueError: unlucky" if out is None else None)
        for serial, out in enumerate(expected)
    ]
    return [json.dumps(row) + "\n" for run in runs for row in run.rows()]


@pytest.fixture(scope="module")
def expected() -> list[Out]:
    return plain_loop(KINDS, range(300))


def test_what_a_plain_loop_gives_does_not_differ(tmp_path: Path, expected: list[Out]) -> None:
    lines = lines_of(expected)
    assert None in expected, "an item at fault is among them"
    (tmp_path / "out").write_text("".join(lines))
    assert compared(tmp_path / "out", expected) == (len(lines), 0)


def without_the_last(lines: list[str]) -> list[str]:
    return lines[:-1]


def with_one_twice(lines: list[str]) -> list[str]:
    return [*lines, lines[-1]]


def with_two_exchanged(lines: list[str]) -> list[str]:
    return [lines[1], lines[0], *lines[2:]]


def with_another_value(lines: list[str]) -> list[str]:
    return [lines[0].replace('"value": ', '"value": 1'), *lines[1:]]


def with_a_dead_worker(lines: list[str]) -> list[str]:
    return [line.replace("ValueError: unlucky", "its worker died") for line in lines]


@pytest.mark.parametrize(
    "spoilt", [without_the_last, with_one_twice, with_two_exchanged, with_another_value, with_a_dead_worker]
)
def test_what_is_spoilt_differs(tmp_path: Path, expected: list[Out], spoilt: Spoil) -> None:
    (tmp_path / "out").write_text("".join(spoilt(lines_of(expected))))
    assert compared(tmp_path / "out", expected)[1] > 0


def test_a_plan_has_a_composition_and_a_size_for_every_second() -> None:
    plan = drawn(Random(3), 60.0, 5000.0, "out.jsonl")
    assert (len(plan.compositions), len(plan.sizes), plan.kills) == (60, 60, 20)
    assert min(plan.sizes) < 5
    assert max(plan.sizes) > 500
    assert plan == drawn(Random(3), 60.0, 5000.0, "out.jsonl")


def test_a_resized_composition_keeps_its_groups() -> None:
    chance, stages = Random(1), stages_of(KINDS)
    first = drawn_composition(chance, stages)
    assert first.transition_to(resized(chance, first, stages)) is TransitionKind.RESIZE
