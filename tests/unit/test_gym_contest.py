"""Contests of the gym: pairs, standings, reports, the command, and a policy of one's own."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from compositions.errors import RecomposeError
from lab.commands.gym import gym
from lab.gym.bounds import Bound
from lab.gym.contest import Contest, Course, Result
from lab.gym.model import Floats
from lab.gym.report import standings
from lab.gym.score import Score
from lab.gym.steering import Change
from lab.gym.suite import SUITE, Pair
from service.cli.main import main

OWN = """
class Two:
    def __init__(self, given):
        self.replicas = {stage: 2 for stage in given.stages}
    def observe(self, measured):
        pass
    def decide(self):
        return self.replicas
"""
COSTS = "# bound_ms: 900\n# cores: 4\na,b\n" + "100000,50000\n" * 20
ARRIVALS = "".join(f"{second / 2}\n" for second in range(150))
PAIR = Pair("wide", "constant", 4.0, "calm")


def own(folder: Path, text: str = OWN, name: str = "own.py") -> str:
    (folder / name).write_text(text)
    return f"{folder}/{name}:Two"


def a_result(policy: str, holds: bool, cost: float, pair: Pair = PAIR) -> Result:
    score = Score(holds, cost, 0.9, 0.8, 0.7, 12.0, 5)
    course = Course(steadily(cost), steadily(0.0), (Change(60.0, "a*2", ""),))
    return Result(pair, policy, score, Bound(2.0, 4.0, "plan", 5.0), course)


def steadily(value: float) -> Floats:
    return np.full(60, value)


# --- the suite --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pair", SUITE, ids=lambda pair: pair.name)
def test_a_pair_is_the_same_in_each_process(pair: Pair) -> None:
    short = replace(pair, duration_s=120.0)
    once, again = short.play(), short.play()
    assert (once.work.due_s == again.work.due_s).all()
    assert (once.work.cpu_s == again.work.cpu_s).all()
    assert once.machine.most_workers >= len(once.apart)
    assert not once.opening or len(once.opening) == len(once.stages)


# --- policies ---------------------------------------------------------------------------------------------------------


def test_a_policy_that_fails_or_asks_for_the_impossible_is_a_sentence(tmp_path: Path) -> None:
    short = replace(PAIR, duration_s=60.0)
    for answer, sentence in (
        ("{'decode': 0}", "asked for 0 replicas of 'decode'; must be 1 or more"),
        ("{'nothing': 1}", "asked for 1 replicas of 'nothing'; must be 1 or more of decode, detect, draw"),
        ("7", "it answered 7; must be replicas by stage, or a composition"),
        ("1 / 0", "it fails at 0.25 s: ZeroDivisionError: division by zero"),
    ):
        text = OWN.replace("return self.replicas", f"return {answer}")
        with pytest.raises(RecomposeError, match="in wide/constant") as refused:
            Contest([own(tmp_path, text, f"own{abs(hash(answer))}.py")], [short]).play()
        assert sentence in str(refused.value)


# --- standings and reports --------------------------------------------------------------------------------------------


def test_who_holds_most_stands_first_and_then_who_pays_least() -> None:
    other = replace(PAIR, load="paced")
    results = [
        a_result("cheap", True, 4.4), a_result("cheap", False, 1.0, other),
        a_result("dear", True, 8.0), a_result("dear", True, 6.0, other),
        a_result("never", False, 1.0), a_result("never", False, 1.0, other),
    ]  # fmt: skip
    rows = standings(results)
    assert [row.policy for row in rows] == ["dear", "cheap", "never"]
    assert rows[0].over_best == pytest.approx(7.0 / 4.0)
    assert rows[1].over_best == pytest.approx(1.1), "of the pairs on which it holds"
    assert rows[1].over_floor == pytest.approx(2.2)
    assert rows[2].cells()[2] == "–"


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command_plays_files_of_users_and_writes_its_reports(tmp_path: Path) -> None:
    (tmp_path / "costs.csv").write_text(COSTS)
    (tmp_path / "arrivals.txt").write_text(ARRIVALS)
    mine = own(tmp_path)
    files = ["--trace", str(tmp_path / "arrivals.txt"), "--app", str(tmp_path / "costs.csv"), "--exact"]
    arguments = ["--policies", f"{mine},hpa", *files, "--duration", "60", "--out", str(tmp_path / "out"), "--json"]
    answer = CliRunner().invoke(gym, arguments)
    assert answer.exit_code == 0, answer.output
    written = {each.name for each in (tmp_path / "out").iterdir()}
    assert written == {"report.html", "report.md", "runs.csv", "costs-arrivals.svg"}
    rows = list(csv.DictReader(io.StringIO((tmp_path / "out" / "runs.csv").read_text())))
    assert {row["policy"] for row in rows} == {mine, "hpa"}
    assert all(float(row["floor"]) <= float(row["found"]) for row in rows)
    assert {row["holds"] for row in rows if row["policy"] == mine} == {"1"}
    told = {each["policy"]: each for each in json.loads(answer.stdout)}
    assert told[mine]["held"]
    assert told[mine]["floor"] <= told[mine]["bound"] <= told[mine]["cost"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--policies", "luck"], "unknown policy 'luck'"),
        (["--loads", "storms"], "unknown load 'storms'"),
        (["--trace", "none.log"], "File 'none.log' does not exist"),
        (["--suite", "all"], "'all' is not one of 'training', 'train', 'test'"),
    ],
)
def test_bad_input_is_a_sentence(
    arguments: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["gym", *arguments, "--out", str(tmp_path)])
    assert ended.value.code in (1, 2)
    shown = capsys.readouterr().err
    assert sentence in shown
    assert "Traceback" not in shown


def test_the_policy_of_the_document_plays(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "research" / "gym.md").read_text(encoding="utf-8")
    code = text.split("```python\n")[1].split("```")[0]
    assert len(code.splitlines()) <= 20
    (tmp_path / "own.py").write_text(code)
    (result,) = Contest([f"{tmp_path}/own.py:TwoThirds"], [replace(PAIR, duration_s=120.0)]).play()
    assert result.score.in_time > 0.6
    assert result.course.changes
