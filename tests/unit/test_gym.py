"""The gym: its plant against closed forms, its floor against schedules, its score against windows, and its contests."""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from compositions.errors import RecomposeError
from lab.commands.gym import gym
from lab.gym.bounds import Bound
from lab.gym.contest import Contest, Course, Result
from lab.gym.floor import floor_of
from lab.gym.hindsight import shared
from lab.gym.model import Floats, Machine, Play, StageModel, Work, windows_of
from lab.gym.plant import VERSION
from lab.gym.player import Run, play_run
from lab.gym.policies.port import Policy
from lab.gym.report import standings
from lab.gym.score import Score, late_by_minute, score_of
from lab.gym.steering import Change
from lab.gym.suite import DRAWN, SUITE, Pair, chosen, fresh
from service.cli.main import main

READY_S = 5.0
"""When the first worker of each group is there, and a change is over."""
NO_HOPS = Machine(4, 4, start_s=1.0, hop_s=0.0, hop_cpu_s=0.0)


def play_of(
    due_s: Sequence[float],
    cpu_s: Sequence[Sequence[float]],
    *,
    machine: Machine = NO_HOPS,
    stages: tuple[StageModel, ...] = (StageModel("a"),),
    wait_s: Sequence[Sequence[float]] | None = None,
    duration_s: float = 60.0,
    bound_s: float = 1.0,
) -> Play:
    costs = np.array(cpu_s, dtype=np.float64).reshape(len(due_s), len(stages))
    waits = np.zeros_like(costs) if wait_s is None else np.array(wait_s, dtype=np.float64)
    work = Work(np.array(due_s, dtype=np.float64), costs, waits)
    return Play("own/own", stages, machine, work, bound_s, duration_s=duration_s)


def played(play: Play, workers: int = 1) -> Run:
    """A run with all stages together, and with so many workers."""
    kept = shared(play, play.merged, workers)
    keep: Any = SimpleNamespace(observe=lambda measured: None, decide=lambda: kept, WARM_S=Policy.WARM_S)
    return play_run(play, lambda given: keep)


def finished_s(run: Run) -> Floats:
    return run.play.work.due_s + run.latency_s


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 2), st.floats(0.01, 2)), min_size=1, max_size=12))
def test_one_worker_is_a_queue_after_lindley(steps: list[tuple[float, float]]) -> None:
    due_s = READY_S + np.cumsum([gap_s for gap_s, _ in steps])
    free_s, expected = 0.0, []
    for at_s, (_, cost_s) in zip(due_s.tolist(), steps, strict=True):
        free_s = max(at_s, free_s) + cost_s
        expected.append(free_s)
    run = played(play_of(due_s.tolist(), [[cost_s] for _, cost_s in steps]))
    np.testing.assert_allclose(finished_s(run), expected, atol=1e-6)


def test_a_worker_that_dies_is_replaced_and_its_item_runs_again() -> None:
    deadly = replace(NO_HOPS, start_s=2.0, deaths_s=(6.5,))
    run = played(play_of([6.0], [[1.0]], machine=deadly))
    np.testing.assert_allclose(finished_s(run), [6.5 + 2.0 + 1.0], atol=0.01)
    assert run.in_order


def test_a_worker_costs_from_asking_to_its_end() -> None:
    slow_start = replace(NO_HOPS, start_s=10.0)
    run = played(play_of([20.0], [[0.1]], machine=slow_start, duration_s=60.0), workers=3)
    assert run.alive[0] == 1
    assert run.alive[3:].tolist() == [3.0] * 57, "two more were asked for in the first second"
    assert score_of(run).cost == pytest.approx(3.0)


PLAYS = [(True, 0.5, 370.573838170), (False, 0.3, 271.637224790)]


@pytest.mark.parametrize(("stateful", "slow", "all_latencies_s"), PLAYS)
def test_a_version_of_the_plant_never_changes(stateful: bool, slow: float, all_latencies_s: float) -> None:
    rng = np.random.default_rng(7)
    stages = (StageModel("a", bandwidth=0.4), StageModel("b", stateful=stateful), StageModel("c", servers=2))
    taken, deaths_s = ((40.0, 2), (60.0, 0)), (30.0, 50.0)
    machine = Machine(3, 8, start_s=2.0, hop_s=0.003, speeds=(1.0, slow), taken=taken, deaths_s=deaths_s)
    due_s = np.sort(rng.uniform(0, 100, 300))
    play = play_of(
        due_s.tolist(), rng.gamma(2, 0.05, (300, 3)).tolist(), machine=machine, stages=stages,
        wait_s=rng.gamma(2, 0.02, (300, 3)).tolist(), duration_s=150.0,
    )  # fmt: skip
    assert VERSION == 3
    assert played(play, 6).latency_s.sum() == pytest.approx(all_latencies_s, abs=1e-6), (
        "the plant, or the dispatcher on it, behaves in another way: play all policies again under another version"
    )


def test_the_objective_has_to_hold_in_every_window() -> None:
    due_s = np.arange(6.0, 1195.0, 1.0)
    costs = np.full((len(due_s), 1), 0.1)
    costs[(due_s >= 650) & (due_s < 670)] = 1.5  # 20 of the third window's items, and those that wait behind them
    run = played(play_of(due_s.tolist(), costs.tolist(), duration_s=1200.0))
    score = score_of(run)
    assert len(windows_of(run.play).starts_s) == 3
    assert not score.holds
    assert score.worst_window < 0.95 < score.in_time
    assert score.late == late_by_minute(run).sum()
    assert score_of(played(play_of(due_s.tolist(), (0 * costs + 0.1).tolist(), duration_s=1200.0))).holds


def test_what_did_not_come_out_is_late() -> None:
    run = played(play_of([31.0, 32.0], [[100.0], [0.1]]))
    assert np.isinf(run.latency_s).all()
    assert score_of(run).late == 2


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32), st.floats(0.5, 2.5), st.sampled_from([0.5, 1.0, 6.0]))
def test_no_composition_that_holds_is_below_the_floor(seed: int, busy: float, start_s: float) -> None:
    rng = np.random.default_rng(seed)
    due_s = np.sort(rng.uniform(0, 120, rng.poisson(120 * busy / 0.3)))
    costs = rng.gamma(4.0, 0.3 / 4, (len(due_s), 1)) + 1e-6
    play = play_of(due_s.tolist(), costs.tolist(), machine=replace(NO_HOPS, start_s=start_s), duration_s=120.0)
    floor = floor_of(play)
    scores = [score_of(played(play, workers)) for workers in (1, 2, 3, 4)]
    assert all(score.cost >= floor - 1e-9 for score in scores if score.holds), (floor, scores)


def test_a_load_that_no_schedule_can_hold_has_an_infinite_floor() -> None:
    play = play_of([61.0] * 100, [[1.0]] * 100, duration_s=120.0)
    assert floor_of(play) == np.inf


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


@pytest.mark.parametrize("pair", SUITE, ids=lambda pair: pair.name)
def test_a_pair_is_the_same_in_each_process(pair: Pair) -> None:
    short = replace(pair, duration_s=120.0)
    once, again = short.play(), short.play()
    assert (once.work.due_s == again.work.due_s).all()
    assert (once.work.cpu_s == again.work.cpu_s).all()
    assert once.machine.most_workers >= len(once.apart)
    assert not once.opening or len(once.opening) == len(once.stages)


def test_fresh_pairs_are_not_in_the_suite_and_differ_by_draw() -> None:
    suite = {(pair.app, pair.load) for pair in SUITE}
    assert not suite & {(pair.app, pair.load) for draw in range(9) for pair in fresh(draw)}
    assert len(set(fresh(1))) == DRAWN
    assert fresh(1) == fresh(1) != fresh(2)
    assert {pair.part for pair in chosen("fresh", (), 600.0, 1)} == {"fresh"}


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ("{'decode': 0}", "asked for 0 replicas of 'decode'; must be 1 or more"),
        ("{'nothing': 1}", "asked for 1 replicas of 'nothing'; must be 1 or more of decode, detect, draw"),
        ("7", "it answered 7; must be replicas by stage, or a composition"),
        ("1 / 0", "it fails at 0.25 s: ZeroDivisionError: division by zero"),
    ],
)
def test_a_policy_that_cannot_be_played_is_a_sentence(tmp_path: Path, answer: str, sentence: str) -> None:
    mine = own(tmp_path, OWN.replace("return self.replicas", f"return {answer}"))
    with pytest.raises(RecomposeError, match=f"in wide/constant.*{sentence}"):
        Contest([mine], [replace(PAIR, duration_s=60.0)]).play()


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


def test_the_command_plays_files_of_users_and_writes_its_reports(tmp_path: Path) -> None:
    (tmp_path / "costs.csv").write_text(COSTS)
    (tmp_path / "arrivals.txt").write_text(ARRIVALS)
    mine = own(tmp_path)
    out, files = tmp_path / "out", ["--trace", str(tmp_path / "arrivals.txt"), "--app", str(tmp_path / "costs.csv")]
    arguments = ["--policies", f"{mine},hpa", *files, "--exact", "--duration", "60", "--out", str(out), "--json"]
    answer = CliRunner().invoke(gym, arguments)
    assert answer.exit_code == 0, answer.output
    assert {each.name for each in out.iterdir()} == {"report.html", "report.md", "runs.csv", "costs-arrivals.svg"}
    rows = list(csv.DictReader(io.StringIO((out / "runs.csv").read_text())))
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
    ],
)
def test_bad_input_is_a_sentence(
    arguments: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["gym", *arguments, "--out", str(tmp_path)])
    assert ended.value.code == 1
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
