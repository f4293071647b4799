"""Check what the benchmarks count and compare, and that they can fail."""

import json
import shlex
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import pytest

from lab.benchmarks.chaos import judged
from lab.benchmarks.chaos_apps.tally import Tally
from lab.benchmarks.chaos_streams import item
from lab.benchmarks.harness import Rows, Table, at_least, at_most, parser_of, run
from lab.benchmarks.mixed.apps.shaped import Kind
from lab.benchmarks.mixed.drawn import Out, plain_loop
from lab.benchmarks.mixed_run import compared
from service.runner.wiring.result_buffer import ResultBatch

ROOT = Path(__file__).parents[2]


def measure(
    folder: Path, rounds: int = 2, ratio: Annotated[float | None, "of something"] = None, quick: bool = False
) -> Iterator[Table | Rows]:
    yield Table("speed", "items/s", [at_least("times slow", "fast", 2.0, "slow")]).run(
        {"fast": lambda: 30.0, "slow": lambda: 10.0 if quick else 20.0}, rounds
    )
    yield Rows("options", [{"folder": str(folder), "ratio": ratio}], {"given": ratio != 0})


@pytest.mark.parametrize(("words", "code"), [(["--quick"], 0), ([], 1), (["--quick", "--ratio", "0"], 1)])
def test_what_is_missed_is_the_exit_status(words: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(measure, ["here", *words]) == code
    assert ("MISSED" in capsys.readouterr().out) == bool(code)


def test_a_ratio_is_the_median_of_ratios_within_a_round() -> None:
    rounds = [{"ours": 10.0, "peer": 5.0}, {"ours": 100.0, "peer": 20.0}, {"ours": 1.0, "peer": 1.0}]
    assert at_least("", "ours", 2.0, "peer").figure(rounds) == 2.0
    assert at_most("", "ours", 9.0).figure(rounds) == 10.0
    assert (at_least("", "ours", 2.0, "peer").met(rounds), at_most("", "ours", 9.0).met(rounds)) == (True, False)


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


# What the benchmark of chaos counts, on streams with one fault each.


GIVEN = [(partition, number) for number in range(40) for partition in "ab"]


def summed(given: Sequence[tuple[str, int]]) -> list[dict[str, Any]]:
    """What a serial run makes of them."""
    app, state, rows = Tally(), None, []
    for partition, number in given:
        row, state = app.add(item(partition, number), state)
        rows.append(row)
    return rows


NO_FAULT = {"lost": 0, "doubled": 0, "misordered": 0, "wrong": 0}


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (summed(GIVEN), NO_FAULT | {"acknowledged": 80, "rows": 80}),
        (summed(GIVEN)[:30] + summed(GIVEN)[31:], {"lost": 1, "doubled": 0, "misordered": 0}),
        (summed(GIVEN)[:70], NO_FAULT | {"behind": 10}),
        (summed([*GIVEN, GIVEN[-1]]), NO_FAULT | {"doubled": 1}),
        (summed([*GIVEN[:4], *GIVEN[6:8], *GIVEN[4:6], *GIVEN[8:]]), {"lost": 0, "doubled": 0, "misordered": 2}),
        ([*summed(GIVEN)[:40], *summed(GIVEN[40:])], NO_FAULT | {"wrong": 40}),
    ],
    ids=["whole", "lost", "behind", "doubled", "misordered", "a state that was lost"],
)
def test_each_fault_is_counted_as_what_it_is(rows: list[dict[str, Any]], expected: dict[str, int]) -> None:
    told = judged(GIVEN, rows)
    assert {name: getattr(told, name) for name in expected} == expected


# What the mixed run takes for a difference, without which it could not fail.


KINDS: tuple[Kind, ...] = ("wait", "repeat", "halve", "pairs")
Spoil = Callable[[list[str]], list[str]]


def lines_of(expected: list[Out]) -> list[str]:
    """As the sink writes them."""
    errors = ("ValueError: unlucky" if out is None else None for out in expected)
    runs = [ResultBatch(serial, [out], error) for serial, (out, error) in enumerate(zip(expected, errors, strict=True))]
    return [json.dumps(row) + "\n" for run in runs for row in run.rows()]


@pytest.fixture(scope="module")
def expected() -> list[Out]:
    return plain_loop(KINDS, range(300))


SPOILS: dict[str, Spoil] = {
    "not at all": lambda lines: lines,
    "without the last": lambda lines: lines[:-1],
    "with one twice": lambda lines: [*lines, lines[-1]],
    "with two exchanged": lambda lines: [lines[1], lines[0], *lines[2:]],
    "with another value": lambda lines: [lines[0].replace('"value": ', '"value": 1'), *lines[1:]],
    "with a dead worker": lambda lines: [line.replace("ValueError: unlucky", "its worker died") for line in lines],
}


@pytest.mark.parametrize("spoilt", SPOILS.values(), ids=SPOILS)
def test_only_what_is_spoilt_differs(tmp_path: Path, expected: list[Out], spoilt: Spoil) -> None:
    assert None in expected, "an item at fault is among them"
    lines = lines_of(expected)
    (tmp_path / "out").write_text("".join(spoilt(lines)))
    found, differences = compared(tmp_path / "out", expected)
    assert (differences > 0) == (spoilt(lines) != lines)
    assert differences or found == len(lines)
