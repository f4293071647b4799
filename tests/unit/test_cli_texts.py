"""Texts of the command line to values, and the sentences for those that are none."""

import re
from collections.abc import Callable
from typing import Any, get_args

import click
import pytest
from click.testing import CliRunner

from control.strategies import STRATEGIES, StrategyName
from profiler.slo import Slo
from service.cli import run as run_module
from service.cli.run import run
from service.cli.texts import parse_batch, parse_option, parse_pattern, parse_rate
from service.schemas.spec import BatchingSpec, InputSpec, RunSpec

SPIKE = InputSpec(pattern="spike", period_s=9, min_per_s=0, max_per_s=2, size_percent=20)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("wave:period=60,min=1,max=10", InputSpec(pattern="wave", period_s=60, min_per_s=1, max_per_s=10)),
        ("spike:period=9,min=0,max=2,size=20", SPIKE),
        ("spike:period_s=9,min_per_s=0,max_per_s=2,size_percent=20", SPIKE),
        ("trace:path=a=b.log,period=60", InputSpec(pattern="trace", path="a=b.log", period_s=60)),
    ],
)
def test_patterns(text: str, expected: InputSpec) -> None:
    assert parse_pattern(text) == expected


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("wave:perio=3", "'perio=3' is not one of period, min, max, size, path with a value"),
        ("wave:period=long", "period = 'long' is not a number"),
        ("sawtooth:period=1", "pattern = 'sawtooth'"),
        ("wave:period=60,period_s=60,min=1,max=10", "period_s is given twice"),
    ],
)
def test_what_is_no_pattern(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        parse_pattern(text)


def test_rates() -> None:
    assert parse_rate("2.5") == InputSpec(rate_per_s=2.5)
    for text in ("fast", "0", "-1", "nan", "inf", "1e7"):
        with pytest.raises(ValueError, match="rate"):
            parse_rate(text)


def test_options_keep_their_text_but_for_lists_and_objects() -> None:
    read = map(parse_option, ["a=1", "b=x=y", "c=[1, 2]", 'd={"k": 1}', "e=[not json", "f="])
    assert dict(read) == {"a": "1", "b": "x=y", "c": [1, 2], "d": {"k": 1}, "e": "[not json", "f": ""}
    for text in ("novalue", "=1"):
        with pytest.raises(ValueError, match="is not KEY=VALUE"):
            parse_option(text)


def test_strategies_have_one_list() -> None:
    assert get_args(StrategyName) == tuple(STRATEGIES)
    (strategy,) = (each for each in run.params if each.name == "strategy")
    assert isinstance(strategy.type, click.Choice)
    assert list(strategy.type.choices) == list(STRATEGIES)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Callable[..., RunSpec]:
    """The spec that words of the command line come to."""
    specs: list[RunSpec] = []
    monkeypatch.setattr(run_module, "Runner", specs.append)

    def spec_of(*words: str) -> RunSpec:
        CliRunner().invoke(run, ["synthetic", "--pool", "local", *words])
        return specs[-1]

    return spec_of


@pytest.mark.parametrize(
    ("given", "fields"),
    [
        ("", {}),
        ("--batch auto", {}),
        ("--batch 512 --batch-bytes 1000 --linger-ms 2.5", {"items": 512, "bytes": 1000, "linger_ms": 2.5}),
        ("--batch slo-batch", {"controller": "slo-batch"}),
        ("--batch pid:kp=20,kd=0.5", {"controller": "pid", "settings": {"kp": 20, "kd": 0.5}}),
    ],
)
def test_a_run_takes_the_size_of_bundles(asked: Callable[..., RunSpec], given: str, fields: dict[str, Any]) -> None:
    assert asked(*given.split()).batching == BatchingSpec(**fields)


def test_a_run_takes_a_composition_by_its_notation(asked: Callable[..., RunSpec]) -> None:
    assert asked("--composition", "7").composition == "7", "a name"
    spec = asked("--composition", "Par*5(f1,f2,f3)")
    (own,) = (each for each in spec.compositions if each.name == spec.composition)
    assert own.workers == 5
    wrong = CliRunner().invoke(run, ["synthetic", "--pool", "local", "--composition", "Par*5(f1,f9)"])
    assert "unknown stage 'f9'" in str(wrong.exception)


def test_a_run_takes_its_data_set_into_memory(asked: Callable[..., RunSpec]) -> None:
    assert asked("--in-memory").source.options == {"in_memory": True}
    wrong = CliRunner().invoke(run, ["synthetic", "--pool", "local", "--in-memory", "--source", "folder:/tmp"])
    assert "--in-memory is for source replay, not for folder" in wrong.output


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("pid:kp=-1", "kp = -1, must be in [0, 100,000]"),
        ("pid:k=1", "unknown setting 'k'; there are threshold"),
        ("pod:kp=1", "or one of faf, pbaf, pbaf-wt, mbaf, pmbaf, pid, slo-batch, such as pid:kp=10,ki=15"),
    ],
)
def test_what_is_no_controller_is_refused_with_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        parse_batch(text)


@pytest.mark.parametrize("text", ["0", "-1", "many", "2.5", "", "100001", "1e3", "\u0661\u0662x"])
def test_what_is_no_number_of_items_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match='must be "auto", or a whole number from 1 to 100,000') as error:
        parse_batch(text)
    assert text in str(error.value)


def test_a_run_takes_percentiles_and_a_threshold(asked: Callable[..., RunSpec]) -> None:
    assert asked("--slo", "p95=200ms", "--threshold", "0.1").slo == Slo("latency", 200.0, 0.1, "p95")
