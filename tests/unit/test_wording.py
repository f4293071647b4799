"""Numbers and addresses in sentences; and what nothing can help against is told once, however often it is seen."""

import re
from pathlib import Path

import pytest

from apps.rates import Fixed
from compositions.model import Composition, Group, Pattern
from compositions.wording import apart, did_you_mean, figure, without_users
from control.decisions import NoChange
from control.journal import Journal
from lab.simulation.machine import Machine
from lab.simulation.scenario import Scenario, SimulatedStage
from lab.simulation.simulation import simulate
from profiler.slo import Slo

ROOT = Path(__file__).parents[2]
WIDE = tuple(Composition(f"wide{n}", (Group(("a", "b", "c"), Pattern.PAR, n),)) for n in (2, 3, 4))


@pytest.mark.parametrize(
    ("value", "digits", "said"),
    [
        (12_520.0, 4, "12,520"),
        (12_520.0, 3, "12,500"),
        (2100.4, 4, "2100"),
        (30.09, 4, "30.09"),
        (0.00001234, 3, "0.0000123"),
        (0.0, 3, "0"),
        (float("inf"), 3, "inf"),
    ],
)
def test_numbers_as_people_write_them(value: float, digits: int, said: str) -> None:
    assert figure(value, digits) == said


def test_no_sentence_of_a_decision_can_have_an_exponent() -> None:
    """``:.3g`` writes 1.25e+04."""
    folders = [ROOT / "control", ROOT / "profiler", ROOT / "service" / "cli"]
    lines = [line for folder in folders for path in folder.rglob("*.py") for line in path.read_text().splitlines()]
    assert [line for line in lines if re.search(r"\{[^{}]*:\.\d+g\}", line)] == []


def test_values_that_differ_are_written_apart() -> None:
    assert apart(359.0, 480.0) == ("359", "480")
    assert apart(1.23999, 1.24) == ("1.23999", "1.24")
    assert apart(100.00001, 100.0) == ("100.00001", "100")
    assert apart(1.2, 1.2) == ("1.2", "1.2")


def test_a_name_is_suggested_only_if_it_is_close() -> None:
    assert did_you_mean("resise", ["load", "resize"]) == " (did you mean 'resize'?)"
    assert did_you_mean("x", ["load", "resize"]) == did_you_mean(7, ["7"]) == ""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("rtsp://admin:it's@cam/1", "rtsp://cam/1"),
        ("kafka://u:pa/ss@h:1/t", "kafka://h:1/t"),
        ("amqp://u@h and http://a:b@c", "amqp://h and http://c"),
        ("https://example.com/users/foo@bar.com/x", "https://example.com/users/foo@bar.com/x"),
        ("https://h/?mail=x@y", "https://h/?mail=x@y"),
        ("GET /?token=abc&x=1", "GET /?token=…&x=1"),
    ],
)
def test_addresses_are_told_without_passwords_and_otherwise_as_they_are(text: str, shown: str) -> None:
    assert without_users(text) == shown


def test_a_violation_while_infeasible_is_decided_once() -> None:
    stages = (SimulatedStage("a", 0.02, 0.6), SimulatedStage("b", 0.03, 0.6), SimulatedStage("c", 0.01, 0.6))
    known = Slo("latency", 50.0), Fixed(10.0), 280.0, Machine(2)
    scenario = Scenario(stages, WIDE, *known, arrivals="poisson", seed=1)
    told = [each for each in simulate(scenario).decisions if each.infeasible]
    assert told, "10 ms a result less than any composition can do"
    stays = [each.from_name for each in told if each.from_name == each.to_name]
    assert len(stays) == len(set(stays)), [each.reason for each in told]


def test_the_same_answer_with_other_figures_is_one_entry() -> None:
    journal = Journal()
    for figures in ("(predicted 32.8 items/s, so the queue grows)", "(predicted mean latency 12,520 ms)") * 12:
        journal.record(NoChange(1.0, f"infeasible: w3 comes closest {figures}"))
    assert [entry.count for entry in journal.no_changes] == [24]
    assert journal.no_changes[0].reason.endswith("12,520 ms)")


def test_reasons_that_take_turns_are_an_entry_each() -> None:
    journal = Journal()
    for turn in range(240):
        journal.record(NoChange(float(turn), "the SLO is met" if turn % 3 else f"too few samples: {turn} of 300"))
    assert [(entry.reason, entry.count) for entry in journal.no_changes] == [
        ("too few samples: 237 of 300", 80), ("the SLO is met", 160),
    ]  # fmt: skip
    assert [(entry.first_at_s, entry.last_at_s) for entry in journal.no_changes] == [(0.0, 237.0), (1.0, 239.0)]
