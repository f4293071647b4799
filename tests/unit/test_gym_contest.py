"""The gym: a contest, what it comes to, its report, and the command."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from apps.input.rates import Fixed
from compositions.errors import RecomposeError
from compositions.model import Composition, Group, Pattern
from runtime.pools.simulated_machine import Machine
from service.cli.gym import gym
from service.cli.main import main
from service.gym.contest import Contest, Round
from service.gym.figures import Figures, figures_of
from service.gym.play import contender
from service.gym.policies.port import Given, Measured, Policy, Replicas
from service.gym.report import as_csv, as_html, as_markdown
from service.gym.standings import Estimate, by_group, standings
from service.gym.suite import CORES, GROUPS, QUICK, SUITE, chosen, task_of
from service.running.simulated.scenario import Happening, Scenario, SimulatedStage
from service.running.simulated.simulation import simulate

OWN = """
class Two:
    def __init__(self, given):
        self.replicas = {stage: 2 for stage in given.stages}
    def observe(self, measured):
        pass
    def decide(self):
        return self.replicas
"""


class Three(Policy):
    """A trivial one: three replicas of each stage, from the third second on."""

    seen: list[Measured]

    def __init__(self, given: Given) -> None:
        self.given = given
        self.turns: list[Measured] = []
        Three.seen = self.turns

    def observe(self, measured: Measured) -> None:
        self.turns.append(measured)

    def decide(self) -> Replicas:
        return dict.fromkeys(self.given.stages, 3) if self.turns[-1].at_s >= 3 else {}


def a_round(policy: str, seed: int, worker_s: float, in_time: float = 1.0, group: str = "g") -> Round:
    return Round("l", group, seed, policy, Figures(100, in_time, worker_s, 2, 1, 4.0), 50.0, 200.0)


# --- the play ---------------------------------------------------------------------------------------------------------


def test_a_trivial_policy_is_played() -> None:
    from service.gym.play import steered_by

    task = task_of(chosen(["wave of 60 s (paced)"])[0], 0, 30.0)
    run = simulate(steered_by(Three)(task))
    assert [run.moments[0].workers, run.moments[-1].workers] == [3, 9]
    assert run.journal.resize_count == run.journal.switch_count == 1, "in place"
    assert run.in_order
    turns = Three.seen
    assert sum(turn.arrived for turn in turns) == run.offered
    assert turns[-1].stages[0].replicas == 3
    done = sum(turn.stages[2].done for turn in turns)
    assert abs(done - len(run.delivered)) < 10, "of the last stage, but for what is on its way out"
    assert figures_of(task, run).worker_s == pytest.approx(0.25 * sum(each.workers for each in run.moments))


def test_what_is_not_read_is_late() -> None:
    """One replica of each cannot do 17 items/s of 0.12 s: half of them are never read."""
    task = task_of(chosen(["constant (paced)"])[0], 0, 60.0)
    figures = figures_of(task, simulate(contender("flink")(task)))
    assert figures.items == pytest.approx(17 * 59.5, abs=6)
    assert figures.in_time < 0.1
    assert figures.recovery_s > 50


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ("1 / 0", "policy Own fails at 0.25 s: ZeroDivisionError"),
        ("7", "policy Own answered 7; must be replicas by stage, or a composition"),
        ('{"detect": 0}', "a policy asked for 0 replicas of 'detect'; must be 1 or more of read, detect, draw"),
        (
            'Composition("c", (Group(("read",)),))',
            "asked for c with 1 workers and the stages read; must be at most 10 and read",
        ),
    ],
)
def test_what_a_policy_cannot_ask_for_is_a_sentence(tmp_path: Path, answer: str, sentence: str) -> None:
    lines = ["from compositions.model import Composition, Group", "class Own:", " def __init__(self, given): pass"]
    lines += [" def observe(self, measured): pass", f" def decide(self): return {answer}"]
    (tmp_path / "own.py").write_text("\n".join(lines))
    with pytest.raises(RecomposeError, match=sentence):
        Contest([f"{tmp_path}/own.py:Own"], chosen(["constant (paced)"]), duration_s=30.0).play()


def test_a_policy_that_takes_nothing_is_said(tmp_path: Path) -> None:
    text = "class Own:\n def observe(self, measured): pass\n def decide(self): return {}\n"
    (tmp_path / "own.py").write_text(text)
    with pytest.raises(RecomposeError, match="policy Own cannot be made with what is given at the start: TypeError"):
        Contest([f"{tmp_path}/own.py:Own"], chosen(["constant (paced)"]), duration_s=30.0).play()


def test_neighbours_slow_the_workers_down() -> None:
    """Four workers with a task of 0.1 s each: 40/s on four cores, 10/s on one."""
    four = Composition("four", (Group(("a",), Pattern.PAR, 4),))
    taken = (Happening(10.0, "cores", cores=1), Happening(20.0, "cores", cores=4))
    busy = Scenario(
        (SimulatedStage("a", 0.1),), (four,), rate=Fixed(100.0), duration_s=30.0, machine=Machine(4),
        strategy="static", first=four, happenings=taken,
    )  # fmt: skip
    left = [item.at_s for item in simulate(busy).delivered]
    counts = [sum(start <= at_s < start + 5 for at_s in left) for start in (3, 12, 23)]
    assert counts == [pytest.approx(200, abs=8), pytest.approx(50, abs=3), pytest.approx(200, abs=8)]


def test_a_policy_may_answer_with_a_composition(tmp_path: Path) -> None:
    lines = ["from compositions.model import Composition, Group", "class Own:", " def __init__(self, given):"]
    lines += ["  self.one = Composition('one', (Group(given.stages, replicas=6),))"]
    lines += [" def observe(self, measured): pass", " def decide(self): return self.one"]
    (tmp_path / "own.py").write_text("\n".join(lines))
    task = task_of(chosen(["constant (paced)"])[0], 0, 30.0)
    run = simulate(contender(f"{tmp_path}/own.py:Own")(task))
    assert (run.final.composition, run.final.workers) == ("one", 6)
    assert figures_of(task, run).changes == 1


# --- the suite --------------------------------------------------------------------------------------------------------


def test_the_suite_has_thirty_loads_in_groups() -> None:
    names = [load.name for load in SUITE]
    assert len(names) == len(set(names)) >= 30
    assert set(QUICK) <= set(names)
    assert set(GROUPS) >= {"patterns", "steps", "crowds", "random", "drift", "losses", "neighbours"}


@pytest.mark.parametrize("load", SUITE, ids=lambda load: load.name)
def test_a_load_stays_within_its_span_and_what_happens_within_the_run(load) -> None:  # type: ignore[no-untyped-def]
    task = task_of(load, 1, 120.0)
    rates = [task.rate(at_s / 4) for at_s in range(480)]
    assert 4 - 1e-9 <= min(rates) <= max(rates) <= 30 + 1e-9
    assert all(0 <= each.at_s <= 120 for each in task.happenings)
    assert task.cores_at(119) == CORES, "what was taken is given back"


def test_neighbours_take_cores_for_a_while() -> None:
    task = task_of(chosen(["seven of ten cores taken for a fifth of the time (paced)"])[0], 0, 100.0)
    assert [task.cores_at(at_s) for at_s in (0, 39, 41, 59, 61)] == [10, 10, 3, 3, 10]


def test_workers_lost_together_are_three() -> None:
    task = task_of(chosen(["three workers lost at once (paced)"])[0], 0, 40.0)
    run = simulate(contender("peak")(replace(task, happenings=task.happenings[:3])))
    lost = [each for each in task.happenings if each.action == "lose_worker"]
    assert [each.at_s for each in lost] == [pytest.approx(at_s) for at_s in (14.0, 14.1, 14.2, 28.0, 28.1, 28.2)]
    assert run.in_order


def test_a_trace_is_a_load(tmp_path: Path) -> None:
    trace = tmp_path / "log.txt"
    trace.write_text("\n".join(str(at_s) for at_s in (0.0, 1.0, 1.1, 1.2, 9.0, 10.0)))
    paced, visited = chosen(["traces"], [trace])
    assert (paced.name, visited.name) == ("log.txt (paced)", "log.txt (Poisson)")
    task = task_of(paced, 0, 100.0)
    assert max(task.rate(float(at_s)) for at_s in range(100)) == 30.0


def test_loads_that_are_not_there_are_said() -> None:
    with pytest.raises(RecomposeError, match="unknown load 'storms'; there are the groups patterns, steps"):
        chosen(["storms"])
    with pytest.raises(RecomposeError, match="unknown policy 'luck'; there are model"):
        Contest(["luck"], SUITE[:1]).play()


# --- what it comes to -------------------------------------------------------------------------------------------------


def test_an_interval_over_seeds() -> None:
    """1, 2, 3: deviation 1, t of 2 degrees of freedom 4.303, over √3."""
    estimate = Estimate.of([1.0, 2.0, 3.0])
    assert estimate.mean == 2.0
    assert estimate.half == pytest.approx(4.303 / 3**0.5)
    assert Estimate.of([1.5]).shown(2) == "1.50"


def test_the_best_goodput_stands_first() -> None:
    rounds = [a_round("a", 0, 100.0), a_round("b", 0, 80.0), a_round("b", 0, 80.0, group="h")]
    assert [row.policy for row in standings(rounds)] == ["b", "a"]
    assert standings(rounds)[1].against_least.mean == 0.5
    assert standings(rounds)[1].cost.mean == 0.5
    assert [len(rows) for rows in by_group(rounds).values()] == [2, 1]


def test_reports_hold_every_run() -> None:
    rounds = [a_round("a", 0, 100.0), a_round("a<b", 1, 80.0, 0.5)]
    rows = list(csv.DictReader(io.StringIO(as_csv(rounds))))
    assert [row["policy"] for row in rows] == ["a", "a<b"]
    assert rows[1]["goodput_against_least"] == "0.3125"
    assert "| a | 1.000 | 0.500 | 0.50 | 2.0 | 4.0 |" in as_markdown(rounds, {"date": "today"})
    page = as_html(rounds, {"date": "today"})
    assert "a&lt;b" in page
    assert "<script" not in page
    assert "http" not in page


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command_writes_its_reports(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    own = f"{tmp_path}/own.py:Two"
    told = CliRunner().invoke(
        gym, ["--policies", f"{own},peak", "--loads", "constant", "--duration", "30", "--out",
              str(tmp_path / "out")]
    )  # fmt: skip
    assert told.exit_code == 0, told.output
    assert {each.name for each in (tmp_path / "out").iterdir()} == {"report.html", "report.md", "runs.csv"}
    rows = list(csv.DictReader(io.StringIO((tmp_path / "out" / "runs.csv").read_text())))
    assert len(rows) == 4, "two loads of the group, two policies"
    assert {row["policy"] for row in rows} == {own, "peak"}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--policies", "luck"], "unknown policy 'luck'"),
        (["--policies", "none.py:Two"], "policy file 'none.py' is not there"),
        (["--loads", "storms"], "unknown load 'storms'"),
        (["--trace", "none.log"], "trace file 'none.log' cannot be read"),
        (["--seeds", "0"], "0 is not in the range"),
        (["--duration", "5"], "5.0 is not in the range"),
    ],
)
def test_bad_input_is_a_sentence(
    arguments: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["gym", *arguments, "--out", str(tmp_path)])
    assert ended.value.code in (1, 2)
    told = capsys.readouterr().err
    assert sentence in told
    assert "Traceback" not in told


def test_the_policy_of_the_document_plays(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "gym.md").read_text(encoding="utf-8")
    (tmp_path / "own.py").write_text(text.split("```python\n")[1].split("```")[0])
    contest = Contest([f"{tmp_path}/own.py:TwoThirds"], chosen(["constant (paced)"]), duration_s=60.0)
    (played,) = contest.play()
    assert played.figures.in_time > 0.6
    assert played.figures.changes > 0


def test_what_was_played_before_an_interrupt_is_reported(tmp_path: Path) -> None:
    lines = ["class Own:", " def __init__(self, given): pass", " def observe(self, measured): raise KeyboardInterrupt"]
    (tmp_path / "own.py").write_text("\n".join([*lines, " def decide(self): pass"]))
    arguments = ["--policies", f"peak,{tmp_path}/own.py:Own", "--loads", "constant", "--duration", "30"]
    told = CliRunner().invoke(gym, [*arguments, "--out", str(tmp_path / "out")])
    assert told.exit_code == 0, told.output
    assert "interrupted after 1 of 4 runs" in told.output
    assert "- runs: 1 of 4" in (tmp_path / "out" / "report.md").read_text()
