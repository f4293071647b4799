"""What if: what was said of other cores, against the run that was then made on them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.benchmarks.what_if import FLOOD_PER_S, SIMULATED, STAGES, asked, simulated


@pytest.mark.parametrize(("here", "there"), SIMULATED)
@pytest.mark.parametrize("rate_per_s", [20.0, FLOOD_PER_S])
def test_the_capacity_on_other_cores_is_what_is_then_measured(here: int, there: int, rate_per_s: float) -> None:
    _, seen = simulated(here, rate_per_s)
    (told,) = asked(seen, there).options
    found, _ = simulated(there)
    assert told.prediction is not None
    assert told.prediction.throughput_per_s == pytest.approx(found, rel=0.12)


def test_crowding_is_told_and_what_waits_keeps_its_wait() -> None:
    _, flooded = simulated(2)
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
    _, idle = simulated(2, 50.0, waiting)
    calm = asked(idle, 8)
    assert calm.crowding == 1.0
    assert [stage.free_s for stage in calm.stages] == [stage.measured_s for stage in calm.stages]
