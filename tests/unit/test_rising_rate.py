"""A rate that rises is no reason to give workers back."""

import pytest

from compositions.model import Composition, Group, Pattern
from control.decisions import Trigger
from lab.simulation.machine import Machine
from lab.simulation.scenario import Scenario, SimulatedStage, steps
from lab.simulation.simulation import simulate
from profiler.slo import Slo

WIDE = tuple(Composition(f"wide{n}", (Group(("a",), Pattern.PAR, n),)) for n in (2, 3, 4, 8))
WORKERS = {each.name: each.workers for each in WIDE}


@pytest.mark.parametrize("course", [[(0.0, 8.0), (10.0, 18.0)], [(0.0, 4.0), (8.0, 9.0), (16.0, 17.0), (24.0, 26.0)]])
def test_no_decision_for_a_rising_rate_has_fewer_workers(course: list[tuple[float, float]]) -> None:
    scenario = Scenario(
        stages=(SimulatedStage("a", 0.1, cv=0.4, wait_share=1.0),),
        compositions=WIDE,
        slo=Slo("latency", 200.0),
        rate=steps(course),
        duration_s=32.0,
        machine=Machine(cores=8),
        first=WIDE[-1],
        arrivals="poisson",
        seed=0,
    )
    rose = [each for each in simulate(scenario).decisions if each.trigger is Trigger.INPUT_RATE]
    assert rose, "such a rate asks for decisions"
    for decision in rose:
        assert WORKERS[decision.to_name] >= WORKERS[decision.from_name], decision.reason
