"""The regulators of replicas on the same frames: what was published of the one, and what is claimed of ours."""

from functools import cache
from typing import Any, NamedTuple

import pytest

from lab.simulation.simulation import simulate
from tests.simulation.test_scenarios import SCENARIOS, held_share, scenario_of

LANE = SCENARIOS["regulator_spar"]
SPAN: dict[str, Any] = LANE["spans"][0]

pytestmark = pytest.mark.long


class Held(NamedTuple):
    share: float
    resizes: int
    switches: int
    delivered: int


@cache
def regulated(strategy: str, scaling_factor: int = 1, latency_band: float = 0.2) -> Held:
    said = {**LANE["settings"], "scaling_factor": scaling_factor, "latency_band": latency_band}
    trace = simulate(scenario_of({**LANE, "settings": said}, strategy))
    journal = trace.journal
    return Held(held_share(SPAN, trace), journal.resize_count, journal.switch_count, len(trace.delivered))


@pytest.mark.parametrize("scaling_factor", [1, 2])
def test_the_wider_band_is_above_the_latency_less_often_and_moves_less(scaling_factor: int) -> None:
    wide, narrow = regulated("spar", scaling_factor), regulated("spar", scaling_factor, 0.1)
    assert wide.share > narrow.share
    assert wide.resizes < narrow.resizes
    assert wide.delivered > 0.9 * narrow.delivered, "at about the same throughput"


def test_ours_holds_the_constraint_with_half_the_resizes_and_no_less_throughput() -> None:
    ours, published = regulated("two-sided"), regulated("spar")
    assert ours.share >= 0.95
    assert ours.resizes <= published.resizes / 2
    assert ours.resizes == ours.switches, "nothing is drained"
    assert ours.delivered >= published.delivered
