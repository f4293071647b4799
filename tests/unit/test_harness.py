"""What the benchmarks count and compare, and that they can fail."""

import json
import shlex
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Annotated, Any, Literal

import pyarrow as pa
import pytest

from apps import registry
from compositions.model import TransitionKind
from lab.benchmarks.chaos import judged
from lab.benchmarks.chaos_apps.tally import Tally
from lab.benchmarks.chaos_streams import item
from lab.benchmarks.harness import Rows, Table, at_least, at_most, parser_of, run
from lab.benchmarks.light_streams import APPS, KEYS, STAGES, loops_of_a_stage, plus_four, sum_at
from lab.benchmarks.military_server import judged as bundles_judged
from lab.benchmarks.mixed.apps.shaped import Kind, stages_of
from lab.benchmarks.mixed.drawn import Out, drawn_composition, plain_loop, resized
from lab.benchmarks.mixed_run import compared, drawn
from service.runner.wiring.result_buffer import ResultBatch

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


# What the benchmark of chaos counts, on streams with one fault each.


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


# The results that the benchmark of light streams expects are those of its apps, one by one.


def test_the_expected_results_are_those_of_the_apps() -> None:
    light, value = registry.create("light", {"loops": 3}, [APPS]), 7
    for name in STAGES:
        value = getattr(light, name)(value)
    assert value == plus_four(7)
    assert loops_of_a_stage() >= 1


@pytest.mark.parametrize("name", ["keyed_sum", "keyed_sums"])
def test_the_expected_sums_are_those_of_the_app(name: str) -> None:
    app, states = registry.create(name, {}, [APPS]), dict[int, int | None]()
    for value in range(3 * KEYS + 7):
        key = app.total_key(value)  # type: ignore[attr-defined]
        if name == "keyed_sum":
            result, states[key] = app.total(value, states.get(key))  # type: ignore[attr-defined]
        else:
            (result,), changed = app.total([value], {key: states.get(key)})  # type: ignore[attr-defined]
            states.update(changed)
        assert result == sum_at(value)


# How the benchmark of the Military Server judges a controller: by the bundles that left its workers.


def test_a_bundle_counts_once_from_its_first_read_on() -> None:
    """Target 3 ms: a bundle of two items took 3.1 ms, one of a single item 6 ms."""
    items = {"serial": [2, 0, 1], "read": [3000, 0, 50], "delivered": [9000, 3100, 3100], "batch": [1, 0, 2]}
    found = bundles_judged(pa.table(items))
    assert found.batched_hit == 0.5
    assert found.itemized_hit == pytest.approx(2 / 3)
    assert found.mad_distance == pytest.approx((0.1 + 3.0) / 3 / 2)


# What the mixed run takes for a difference, without which it could not fail.


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
