"""Policies over loads that move, in virtual time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from compositions.model import Composition, Group, Pattern
from profiler.slo import Slo
from runtime.pools.simulated_machine import Machine
from service.gym.clairvoyant import Clairvoyant
from service.gym.figures import Figures
from service.gym.loads import LOADS, Span
from service.gym.play import POLICIES, play
from service.gym.task import Task
from service.running.simulated.scenario import Happening, SimulatedStage

STAGES = (SimulatedStage("a", 0.02, 0.3), SimulatedStage("b", 0.08, 0.3))
MERGED = tuple(Composition(f"m{n}", (Group(("a", "b"), Pattern.PAR, n),)) for n in range(1, 9))
SPAN = Span(6.0, 40.0, 150.0)


def task(load: str, arrivals: str = "paced", policy_duration_s: float = 150.0) -> Task:
    slo = Slo("latency", 300.0, statistic="share", share=0.95)
    rate = LOADS[load](SPAN, 1)
    return Task(STAGES, MERGED, Machine(8), rate, slo, 0.3, arrivals, policy_duration_s, 1)  # type: ignore[arg-type]


def test_a_load_has_the_rates_of_its_span() -> None:
    for name, make in LOADS.items():
        rates = [make(SPAN, 0)(float(at_s)) for at_s in range(150)]
        assert min(rates) >= 6.0 - 1e-9, name
        assert max(rates) <= 40.0 + 1e-9, name


def test_the_clairvoyant_pays_for_as_many_as_the_rate_needs() -> None:
    clairvoyant = Clairvoyant(task("constant"))
    needed = [clairvoyant.workers(rate) for rate in (6.0, 12.0, 24.0, 40.0)]
    assert needed == sorted(needed)
    assert needed[0] < needed[-1] <= 8
    assert clairvoyant.workers(40.0) >= 4, "40 items/s of 0.1 s"


def test_the_clairvoyant_pays_less_than_the_peak() -> None:
    crowd = task("crowd, 12 of 60 s")
    clairvoyant = Clairvoyant(crowd)
    assert clairvoyant.worker_s() < 0.7 * clairvoyant.peak().workers * crowd.duration_s


def test_the_clairvoyant_pays_for_the_cores_that_are_left() -> None:
    taken = replace(task("constant"), happenings=(Happening(50.0, "cores", cores=2),))
    clairvoyant = Clairvoyant(taken)
    assert clairvoyant.workers(40.0, 0.0) > 4
    assert clairvoyant.workers(40.0, 60.0) == 2, "40 items/s of 0.1 s are too many for two cores: more would not help"


@pytest.mark.parametrize(("load", "arrivals"), [("wave of 60 s", "paced"), ("crowd, 12 of 60 s", "poisson")])
def test_the_strategy_follows_a_load_at_little_more_than_it_needs(load: str, arrivals: str) -> None:
    asked = task(load, arrivals)
    told, least_s = play(asked, "model"), Clairvoyant(asked).worker_s()
    assert told.in_time > 0.88, "the first seconds of a run of two and a half minutes are in it"
    assert told.worker_s < 1.35 * least_s


def test_a_policy_that_is_not_there_is_refused() -> None:
    assert set(POLICIES) >= {"model", "vogel", "pdp21", "peak"}
    with pytest.raises(KeyError):
        play(task("constant"), "wishes")


def test_goodput_is_of_items_in_time() -> None:
    assert Figures(1000, 0.9, 300.0, 3, 2).goodput == pytest.approx(3.0)
