"""``run``, ``check``, ``serve`` and the group itself, without Ray; and texts of the command line to values."""

import hashlib
import json
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import click
import pytest
from click.testing import CliRunner, Result

from control.strategies import STRATEGIES, StrategyName
from profiler.slo import Slo, SloStatus
from service import logs
from service.cli import main
from service.cli import run as run_module
from service.cli.follow import ending
from service.cli.run import run
from service.cli.texts import parse_batch, parse_option, parse_pattern, parse_rate
from service.schemas.results import CheckedItems, Summary
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
    ("parse", "text", "sentence"),
    [
        (
            parse_pattern,
            "wave:perio=3",
            "'perio=3' is not NAME=VALUE, where NAME is one of period, min, max, size, path",
        ),
        (parse_pattern, "wave:period=long", "period = 'long' is not a number"),
        (parse_pattern, "sawtooth:period=1", "pattern = 'sawtooth'"),
        (parse_pattern, "wave:period=60,period_s=60,min=1,max=10", "period_s is given twice"),
        (parse_batch, "pid:kp=-1", "kp = -1, must be in [0, 100,000]"),
        (parse_batch, "pid:k=1", "unknown setting 'k'; there are threshold"),
        (parse_batch, "pod:kp=1", "one of faf, pbaf, pbaf-wt, mbaf, pmbaf, pid, slo-batch, such as pid:kp=10,ki=15"),
    ],
)
def test_what_is_no_pattern_or_controller_is_refused_with_a_sentence(
    parse: Callable[[str], object], text: str, sentence: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        parse(text)


@pytest.mark.parametrize("text", ["0", "-1", "many", "2.5", "", "100001", "1e3", "\u0661\u0662x"])
def test_what_is_no_number_of_items_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match='must be "auto", or a whole number from 1 to 100,000') as error:
        parse_batch(text)
    assert text in str(error.value)


def test_a_run_takes_percentiles_and_a_threshold(asked: Callable[..., RunSpec]) -> None:
    assert asked("--slo", "p95=200ms", "--threshold", "0.1").slo == Slo("latency", 200.0, 0.1, "p95")


QUICK = ["run", "synthetic", "--pool", "local", "-o", "total_ms=0.3", "-o", "compute=wait"]


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logging stays as it is, and there is no token."""
    monkeypatch.setattr(logs, "configure", lambda *_, **__: None)
    monkeypatch.delenv("RECOMPOSE_TOKEN", raising=False)


def invoke(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, list(arguments))
    assert result.exit_code == code, result.output
    return result


def test_a_run_gives_the_same_file_for_every_composition(tmp_path: Path) -> None:
    digests = set()
    for name in ("1", "7"):
        out = tmp_path / f"{name}.jsonl"
        text = invoke(*QUICK, "--items", "60", "--composition", name, "--out", str(out)).stdout
        assert "accepted 60, delivered 60, failed 0, shed 0, lost 0, misordered 0" in text
        digests.add(hashlib.sha256(out.read_bytes()).hexdigest())
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["serial"] for line in lines] == list(range(60))
    assert set(lines[0]) == {"serial", "value"}
    assert len(digests) == 1


def test_a_run_without_items_reads_the_data_set_once() -> None:
    summary = json.loads(invoke(*QUICK, "-o", "items=25", "--json").stdout)
    assert summary["items"]["delivered"] == 25


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["run", "nope", "--pool", "local"], "unknown app 'nope'"),
        ([*QUICK, "--composition", "99"], "unknown composition '99'"),
        ([*QUICK, "--out", "/does/not/exist/out"], "/does/not/exist/out"),
        ([*QUICK, "--source", "replay:/does/not/exist"], "'/does/not/exist' does not exist"),
        (["serve", "--host", "0.0.0.0"], "set RECOMPOSE_TOKEN or bind to 127.0.0.1"),
        (["serve", "--state", "/dev/null/x", "--pool", "local", "--port", "0"], "cannot be used"),
        (
            ["report", "x", "--from", "docs", "--until", "0001-01-01T00:00:00+0100"],
            "is not in the years 1 to 9999",
        ),
        (
            ["report", "x", "--from", "docs", "--since", "9999-12-31T23:59:59-0100"],
            "is not in the years 1 to 9999",
        ),
        (["status", "--url", "http://h/\udcff"], "is not a URL such as"),
    ],
)
@pytest.mark.logs_errors("run failed")
def test_what_cannot_run_says_so_and_exits_1(arguments: list[str], sentence: str) -> None:
    error = invoke(*arguments, code=1).stderr
    assert sentence in error
    assert error.splitlines()[-1].startswith("Error: ")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([*QUICK, "--rate", "1", "--pattern", "wave:period=1,min=1,max=2"], "exclude each other"),
        ([*QUICK, "--source", "push"], "source push needs the daemon"),
        ([*QUICK, "--slo", "latency=fast"], "accepted are latency=400ms"),
        ([*QUICK, "-o", "novalue"], "is not KEY=VALUE"),
        (["slo", "synthetic", "p95=1s", "--statistic", "p50"], "exclude each other"),
        (["status", "--watch"], "--watch needs an APP"),
        (["results", "\udcff"], r"'\udcff' is not text in UTF-8"),
        (["check"], "give a FILE (compositions in YAML, or an app in Python), or --apps FOLDER"),
    ],
)
def test_usage_errors_are_one_sentence_and_exit_2(arguments: list[str], sentence: str) -> None:
    error = invoke(*arguments, code=2).stderr
    assert sentence in error
    assert error.startswith("Error: ")
    assert error.count("\n") == 1


def test_a_port_in_use_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        error = invoke("serve", "--port", str(port), "--pool", "local", code=1).stderr
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use; give another --port" in error


def test_check_names_every_fault_with_its_path(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("app: synthetic\ncompositions: [{name: a, notation: Seq}, {name: b, notaton: Seq-Seq-Seq}]")
    error = invoke("check", str(file), code=1).stderr
    assert f"{file}: compositions[0].notation: " in error
    assert f"{file}: compositions[1].notaton: unknown key" in error
    file.write_text("app: synthetic\ncompositions: [{name: a, notation: Seq-Seq-Seq}]")
    assert invoke("check", str(file)).stdout == f"{file}: 1 compositions of synthetic, no fault\n"


APP = """
from apps.contract import App, Stage
class Own(App):
    name = "own"
    stages = (Stage("one"),)
    def one(self, value):
        return value
"""


def test_check_needs_no_compositions(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(APP)
    told = "own: stages one; no list of compositions\n"
    assert invoke("check", str(tmp_path / "own.py")).stdout == told
    assert invoke("check", "--apps", str(tmp_path)).stdout == told
    (tmp_path / "own.yaml").write_text("app: own\ncompositions: [{name: a, notation: Seq}]")
    assert invoke("check", str(tmp_path / "own.py")).stdout == "own: stages one; 1 compositions\n"
    (tmp_path / "own.yaml").write_text("app: own\ncompositions: [{name: a, notation: Seq-Seq}]")
    assert "compositions[0].notation" in invoke("check", "--apps", str(tmp_path), code=1).stderr


def test_check_names_what_is_wrong_with_an_app(tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text("1 / 0")
    assert "broken.py: cannot be loaded: ZeroDivisionError" in invoke("check", str(file), code=1).stderr
    other = tmp_path / "other.py"  # a file of the same name, size and second would be taken from Python's cache
    other.write_text("x = 1")
    assert "no app found; an app is a subclass of App" in invoke("check", str(other), code=1).stderr


def test_help_and_version() -> None:
    for command in main.list_commands(click.Context(main)):
        assert "Usage:" in invoke(command, "--help").stdout
    assert "recompose, version" in invoke("--version").stdout
    assert "Usage:" in invoke(code=2).stderr


def test_the_list_of_commands_is_told_without_importing_them() -> None:
    code = (
        "import atexit, sys; from service.cli import main; "
        "atexit.register(lambda: print(*sorted(name for name in sys.modules if name.startswith('service')))); "
        "main(['--help'])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    *lines, modules = said.splitlines()
    told = dict(line.split(maxsplit=1) for line in lines[lines.index("Commands:") + 1 :])
    assert list(told) == main.list_commands(click.Context(main))
    assert {"serve", "gym", "demo", "run", "slo", "status", "decisions", "compositions", "check"} <= told.keys()
    assert all(line.endswith(".") and not line.endswith("...") for line in told.values()), "each fits its line"
    assert modules.split() == ["service", "service.cli", "service.cli.main"]


def test_a_token_that_no_header_takes_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOMPOSE_TOKEN", "\udcff")
    assert "RECOMPOSE_TOKEN has characters outside ASCII" in invoke("status", code=1).stderr


# --- every way a run can end has its exit code and a sentence ---------------------------------------------------------


def items(**counts: int) -> CheckedItems:
    return CheckedItems(**{"accepted": 4, "delivered": 4, "failed": 0, "shed": 0, "lost": 0, "misordered": 0} | counts)


ALL_FAILED = {"items": items(delivered=0, failed=4), "first_error": "item 0: Traceback\nKeyError: 'a'"}
UNWRITTEN = {"items": items(delivered=3, failed=1), "unwritten": 1, "first_error": "item 2: no JSON"}
GIVEN_UP = {"items": items(accepted=9, failed=2)}
VIOLATED = {"items": items(), "slo_status": SloStatus.VIOLATED}


@pytest.mark.parametrize(
    ("how", "known", "told"),
    [
        ("judged", {"failure": "Traceback\n  in it\nOSError: full"}, (1, "OSError: full")),
        ("judged", {"items": items(lost=2)}, (1, "2 items lost, 0 out of order")),
        ("judged", ALL_FAILED, (3, "all 4 items failed; the first: KeyError: 'a'")),
        ("judged", UNWRITTEN, (4, "1 results could not be written; the first: item 2: no JSON")),
        ("judged", VIOLATED, (5, "the objective is violated at the end of the run")),
        ("judged", {"items": items(failed=1, delivered=3)}, None),
        ("", VIOLATED, None),
        ("interrupted", {"items": items()}, (130, "interrupted; 4 items delivered")),
        ("interrupted", GIVEN_UP, (130, "interrupted; 4 items delivered, 3 accepted items given up")),
        ("interrupted", {"items": items(), "failure": "broken"}, (1, "broken")),
    ],
)
def test_the_end_of_a_run_has_a_code_and_a_sentence(how: str, known: dict[str, Any], told: Any) -> None:
    """The failure comes before the interruption; who did not ask is not told of a missed objective."""
    end = ending(Summary(**known), interrupted=how == "interrupted", fail_on_slo=how == "judged")
    assert (end and (end.exit_code, end.message)) == told


def test_a_run_whose_items_all_fail_says_so_and_shows_the_first_traceback() -> None:
    done = invoke(*QUICK, "--items", "2", "-o", "fail_at=[0, 1]", code=3)
    assert "Error: all 2 items failed; the first: ValueError: " in done.output
    assert "Traceback" in done.output


def test_an_interruption_that_nothing_waits_for_has_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(run_module, "Runner", interrupt)
    assert "Error: interrupted" in invoke("run", "synthetic", "--pool", "local", code=130).stderr
