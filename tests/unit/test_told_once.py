"""What nothing can help against is told once, however often it is seen."""

from apps.rates import Fixed
from compositions.model import Composition, Group, Pattern
from control.decisions import NoChange
from control.journal import Journal
from lab.simulation.machine import Machine
from lab.simulation.scenario import Scenario, SimulatedStage
from lab.simulation.simulation import simulate
from profiler.slo import Slo

WIDE = tuple(Composition(f"wide{n}", (Group(("a", "b", "c"), Pattern.PAR, n),)) for n in (2, 3, 4))


def test_a_violation_while_infeasible_is_decided_once() -> None:
    stages = (SimulatedStage("a", 0.02, 0.6), SimulatedStage("b", 0.03, 0.6), SimulatedStage("c", 0.01, 0.6))
    scenario = Scenario(
        stages, WIDE, Slo("latency", 50.0), Fixed(10.0), 280.0, Machine(2), arrivals="poisson", seed=1
    )  # fmt: skip
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
