"""A light app is looked at once a second, and four times as soon as something waits."""

from collections import Counter

import pytest

from compositions.model import Composition, Group, Pattern
from lab.simulation.machine import Machine
from lab.simulation.scenario import Scenario, SimulatedStage, steps
from lab.simulation.simulation import SimulatedRun
from profiler.slo import Slo

ONE = Composition("one", (Group(("a",), Pattern.SEQ),))


@pytest.mark.parametrize(("rate_per_s", "turns"), [(2.0, 1), (8.0, 4)], ids=["light", "busy for 0.4 of the time"])
def test_turns_per_second(rate_per_s: float, turns: int) -> None:
    looked = _looked(steps([(0.0, rate_per_s)]), service_s=0.04 if turns == 1 else 0.05)
    assert {looked[second] for second in range(10, 20)} == {turns}


def test_a_queue_ends_the_rest_of_a_light_app() -> None:
    looked = _looked(steps([(0.0, 1.0), (15.2, 60.0)]), service_s=0.05)
    assert looked[14] == 1
    assert looked[16] == 4


def _looked(rate: object, service_s: float) -> Counter[int]:
    """Return the turns of each second of a run of 20 s."""
    run = SimulatedRun(
        Scenario(
            stages=(SimulatedStage("a", service_s, cv=0.0, wait_share=1.0),),
            compositions=(ONE,),
            slo=Slo("latency", 500.0),
            rate=rate,
            duration_s=20.0,
            machine=Machine(cores=2),
            first=ONE,
        )
    )
    seen: set[float] = set()
    for step in range(2000):
        run.advance(step / 100)
        if run.loop.snapshot is not None:
            seen.add(run.loop.snapshot.now_s)
    return Counter(int(at_s) for at_s in seen)
