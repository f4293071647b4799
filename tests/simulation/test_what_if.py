"""What if: what was said of other cores, against the run that was then made on them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from apps.input.rates import Fixed
from compositions.model import Composition, Stage
from compositions.notation import parse
from control.decisions import Mode
from control.settings import Settings
from control.strategies import make_strategy
from control.what_if import Outlook, Present, Question, outlook
from profiler.snapshot import Snapshot
from runtime.pools.simulated_machine import Machine
from service.running.simulated.scenario import Scenario, SimulatedStage
from service.running.simulated.simulation import SimulatedRun

STAGES = (SimulatedStage("f1", 0.010, 0.2), SimulatedStage("f2", 0.010, 0.2), SimulatedStage("f3", 0.010, 0.2))
WIDE = replace(parse("Par*2-Par*2-Par*2", [Stage(each.name) for each in STAGES]), name="wide")
FLOOD_PER_S = 500.0
SECONDS = 30.0


def measured(cores: int, rate_per_s: float, stages: tuple[SimulatedStage, ...] = STAGES) -> tuple[float, Snapshot]:
    """Items delivered a second by the second half of a run on so many cores, and what was seen at its end."""
    machine = replace(Machine(), cores=cores)
    scenario = Scenario(
        stages, (WIDE,), rate=Fixed(rate_per_s), duration_s=SECONDS, machine=machine, mode=Mode.OBSERVE, first=WIDE
    )
    run = SimulatedRun(scenario)
    run.advance(SECONDS)
    trace, seen = run.finish(), run.loop.snapshot
    assert seen is not None
    return sum(each.at_s > SECONDS / 2 for each in trace.delivered) / (SECONDS / 2), seen


def asked(seen: Snapshot, cores: int, choices: tuple[Composition, ...] = (WIDE,)) -> Outlook:
    return outlook(Question(cores=cores), Present(seen, choices[0], choices, None, make_strategy("model"), Settings()))


@pytest.mark.parametrize(("here", "there"), [(2, 1), (2, 8), (1, 8), (8, 1), (8, 2)])
@pytest.mark.parametrize("rate_per_s", [20.0, FLOOD_PER_S])
def test_the_capacity_on_other_cores_is_what_is_then_measured(here: int, there: int, rate_per_s: float) -> None:
    _, seen = measured(here, rate_per_s)
    (told,) = asked(seen, there).options
    found, _ = measured(there, FLOOD_PER_S)
    assert told.prediction is not None
    assert told.prediction.throughput_per_s == pytest.approx(found, rel=0.12)


def test_crowding_is_told_and_what_waits_keeps_its_wait() -> None:
    _, flooded = measured(2, FLOOD_PER_S)
    told = asked(flooded, 8)
    assert told.crowding > 1.5
    for stage in told.stages:
        assert stage.measured_s > 1.3 * stage.free_s
        assert stage.free_s == pytest.approx(0.010, rel=0.15)
    (option,) = told.options
    assert option.worst is not None
    assert option.best is not None
    assert option.prediction is not None
    assert option.worst.throughput_per_s < option.prediction.throughput_per_s < option.best.throughput_per_s

    waiting = tuple(replace(each, wait_share=0.9) for each in STAGES)
    _, idle = measured(2, 50.0, waiting)
    calm = asked(idle, 8)
    assert calm.crowding == 1.0
    assert [stage.free_s for stage in calm.stages] == [stage.measured_s for stage in calm.stages]
