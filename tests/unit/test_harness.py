"""The harness of the benchmarks: options from a function, results as text and JSON, and the exit status."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Annotated, Literal

import pytest

from lab.benchmarks.harness import Rows, Table, at_least, at_most, parser_of, run

ROOT = Path(__file__).parents[2]


def measure(
    folder: Path,
    rounds: int = 2,
    ratio: Annotated[float | None, "of something"] = None,
    quick: bool = False,
    kind: tuple[Literal["a", "b"], ...] = ("a",),
) -> Iterator[Table | Rows]:
    yield Table("speed", "items/s", [at_least("times slow", "fast", 2.0, "slow")]).run(
        {"fast": lambda: 30.0, "slow": lambda: 10.0 if quick else 20.0}, rounds
    )
    yield Rows("options", [{"folder": str(folder), "ratio": ratio, "kinds": list(kind)}], {"given": ratio != 0})


def results(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(capsys.readouterr().out)["tables"]
    return found


def test_arguments_of_the_function_are_options(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["here", "--rounds", "3", "--ratio", "0.5", "--quick", "--kind", "b", "--kind", "a", "--json"]
    assert run(measure, words) == 0
    table, rows = results(capsys)
    assert len(table["rounds"]) == 3  # type: ignore[arg-type]
    assert rows["rows"] == [{"folder": "here", "ratio": 0.5, "kinds": ["b", "a"]}]


def test_without_options_it_has_the_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    run(measure, ["here", "--json"])
    assert results(capsys)[1]["rows"] == [{"folder": "here", "ratio": None, "kinds": ["a"]}]


@pytest.mark.parametrize("words", [[], ["here", "--kind", "c"], ["here", "--rounds", "many"], ["here", "--other"]])
def test_what_is_no_option_is_a_usage_error(words: list[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        run(measure, words)
    assert refused.value.code == 2


@pytest.mark.parametrize(("words", "code"), [(["--quick"], 0), ([], 1), (["--quick", "--ratio", "0"], 1)])
def test_a_goal_or_a_check_that_is_missed_is_the_exit_status(
    words: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(measure, ["here", *words]) == code
    assert ("MISSED" in capsys.readouterr().out) == bool(code)


def test_a_ratio_is_the_median_of_ratios_within_a_round() -> None:
    rounds = [{"ours": 10.0, "peer": 5.0}, {"ours": 100.0, "peer": 20.0}, {"ours": 1.0, "peer": 1.0}]
    assert at_least("", "ours", 2.0, "peer").figure(rounds) == 2.0
    assert at_most("", "ours", 9.0).figure(rounds) == 10.0
    assert (at_least("", "ours", 2.0, "peer").met(rounds), at_most("", "ours", 9.0).met(rounds)) == (True, False)


def test_rows_are_columns_and_one_row_is_a_list() -> None:
    assert list(Rows("many", [{"a": 1, "b": 0.12345}, {"a": None, "c": 12345.6}]).lines()) == [
        "many", "  a       b       c", "  1  0.1235       –", "  –       –  12,346",
    ]  # fmt: skip
    assert list(Rows("one", [{"a": 1, "b": 2}]).lines()) == ["one", "  a: 1", "  b: 2"]


def commands() -> Iterator[tuple[str, list[str]]]:
    """Commands of benchmarks in the documents."""
    for document in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for line in document.read_text().splitlines():
            for part in line.split("python -m lab.benchmarks.")[1:]:
                name, *words = shlex.split(part.partition("`")[0].partition("#")[0])
                yield name, words


@pytest.mark.parametrize(("name", "words"), sorted({(name, tuple(words)) for name, words in commands()}), ids=str)
def test_commands_of_the_documents_are_understood(name: str, words: tuple[str, ...]) -> None:
    parser_of(import_module(f"lab.benchmarks.{name}").measure).parse_args(words)
