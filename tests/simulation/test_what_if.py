"""Compare what-if for other cores with the run that was then made on them."""

from dataclasses import replace
from functools import cache

import pytest

from apps.rates import Fixed
from compositions.model import Stage
from compositions.notation import parse
from control.decisions import Mode
from control.settings import Settings
from control.strategies import make_strategy
from control.what_if import Outlook, Present, Question, outlook
from lab.simulation.machine import Machine
from lab.simulation.scenario import Scenario, SimulatedStage
from lab.simulation.simulation import SimulatedRun
from profiler.snapshot import Snapshot

STAGES = (SimulatedStage("f1", 0.010, 0.2), SimulatedStage("f2", 0.010, 0.2), SimulatedStage("f3", 0.010, 0.2))
WIDE = replace(parse("Par*2-Par*2-Par*2", [Stage(each.name) for each in STAGES]), name="wide")
FLOOD_PER_S = 500.0
SIMULATED_S = 30.0
SIMULATED = ((2, 1), (2, 8), (1, 8), (8, 1), (8, 2))


@cache
def simulated(
    cores: int, rate_per_s: float = FLOOD_PER_S, stages: tuple[SimulatedStage, ...] = STAGES
) -> tuple[float, Snapshot]:
    """Run on this number of cores; return the items/s delivered by the second half, and what was seen at its end."""
    how = {"machine": replace(Machine(), cores=cores), "mode": Mode.OBSERVE, "first": WIDE}
    run = SimulatedRun(Scenario(stages, (WIDE,), rate=Fixed(rate_per_s), duration_s=SIMULATED_S, **how))
    run.advance(SIMULATED_S)
    trace, seen = run.finish(), run.loop.snapshot
    return sum(each.at_s > SIMULATED_S / 2 for each in trace.delivered) / (SIMULATED_S / 2), seen


def asked(seen: Snapshot, cores: int) -> Outlook:
    """Return what the manager predicts for other cores, having seen that."""
    present = Present(seen, WIDE, (WIDE,), None, make_strategy("expected-cost"), Settings())
    return outlook(Question(cores=cores), present)


@pytest.mark.parametrize(("here", "there"), SIMULATED)
@pytest.mark.parametrize("rate_per_s", [20.0, FLOOD_PER_S])
def test_the_capacity_on_other_cores_is_what_is_then_measured(here: int, there: int, rate_per_s: float) -> None:
    _, seen = simulated(here, rate_per_s)
    (told,) = asked(seen, there).options
    found, _ = simulated(there)
    assert told.prediction.throughput_per_s == pytest.approx(found, rel=0.12)


def test_crowding_is_told_and_what_waits_keeps_its_wait() -> None:
    _, flooded = simulated(2)
    told = asked(flooded, 8)
    assert told.crowding > 1.5
    for stage in told.stages:
        assert stage.measured_s > 1.3 * stage.free_s
        assert stage.free_s == pytest.approx(0.010, rel=0.15)
    (option,) = told.options
    assert option.worst.throughput_per_s < option.prediction.throughput_per_s < option.best.throughput_per_s

    waiting = tuple(replace(each, wait_share=0.9) for each in STAGES)
    _, idle = simulated(2, 50.0, waiting)
    calm = asked(idle, 8)
    assert calm.crowding == 1.0
    assert [stage.free_s for stage in calm.stages] == [stage.measured_s for stage in calm.stages]
