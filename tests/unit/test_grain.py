"""Check how many items travel together where nobody has said."""

from collections import Counter

import pytest

from compositions.batching import Batching
from compositions.model import Composition, Group, Pattern
from compositions.settings import SettingsError
from control.bundles.bundle_size import MOST_ITEMS, grain_of
from lab.simulation.machine import Machine
from lab.simulation.scenario import Scenario, SimulatedStage, steps
from lab.simulation.simulation import SimulatedRun
from profiler.slo import Slo
from profiler.snapshot import StageProfile

STAGES = ("a", "b", "c", "d")
MERGED = Composition("1", (Group(STAGES),))
CHAIN = Composition("4", tuple(Group((stage,)) for stage in STAGES))
HOP_S = 100e-6


def profiles(each_s: float) -> tuple[StageProfile, ...]:
    return tuple(StageProfile(stage, each_s, each_s, 0.0, each_s, each_s, 100) for stage in STAGES)


@pytest.mark.parametrize(
    ("composition", "each_s", "target_s", "items"),
    [
        (MERGED, 1e-3, None, 1),  # 10 * 0.1 ms of hop against 4 ms of work: less than an item
        (MERGED, 50e-6, None, 4),  # 10 * 100 us / 200 us = 5, and 4 is the power of two
        (CHAIN, 50e-6, None, 16),  # four hops: 20
        (CHAIN, 50e-6, 2e-3, 2),  # a quarter of 2 ms is 0.5 ms: 2 items of 200 us
        (MERGED, 0.05e-6, None, MOST_ITEMS),  # 5000 would do
        (MERGED, 0.0, None, MOST_ITEMS),
        (CHAIN, 1e-3, None, 1),  # 10 * 0.4 / 4 = 1 item
        (CHAIN, 600e-6, None, 1),  # 1.67 items
        (CHAIN, 400e-6, 5e-3, 1),  # the hop asks for 2.5, a quarter of 5 ms bears 0.8
    ],
)
def test_so_many_make_hops_cheap(composition: Composition, each_s: float, target_s: float | None, items: int) -> None:
    assert grain_of(profiles(each_s), composition, HOP_S, target_s).items == items


def test_one_by_one_until_every_stage_was_measured() -> None:
    found = grain_of(profiles(1e-6)[:3], MERGED, HOP_S, None)
    assert (found.items, found.reason) == (1, "nothing is measured yet")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"items": 0}, "items is 0; must be auto, or a whole number from 1 to 100,000"),
        ({"items": 2.5}, "items is 2.5; must be auto"),
        ({"linger_ms": -1.0}, "linger_ms"),
        ({"max_bytes": 0}, "max_bytes"),
    ],
)
def test_what_is_no_bundle_is_refused_with_a_sentence(given: dict[str, object], sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        Batching(**given)  # type: ignore[arg-type]


ONE = Composition("one", (Group(("a",), Pattern.SEQ),))


@pytest.mark.parametrize(("rate_per_s", "turns"), [(2.0, 1), (8.0, 4)], ids=["light", "busy for 0.4 of the time"])
def test_turns_per_second(rate_per_s: float, turns: int) -> None:
    looked = _looked(steps([(0.0, rate_per_s)]), service_s=0.04 if turns == 1 else 0.05)
    assert {looked[second] for second in range(10, 20)} == {turns}


def test_a_queue_ends_the_rest_of_a_light_app() -> None:
    looked = _looked(steps([(0.0, 1.0), (15.2, 60.0)]), service_s=0.05)
    assert (looked[14], looked[16]) == (1, 4)


def _looked(rate: object, service_s: float) -> Counter[int]:
    """Return the turns of each second of a run of 20 s."""
    stages = (SimulatedStage("a", service_s, cv=0.0, wait_share=1.0),)
    slo, machine = Slo("latency", 500.0), Machine(cores=2)
    run = SimulatedRun(Scenario(stages, (ONE,), slo, rate, duration_s=20.0, machine=machine, first=ONE))
    seen: set[float] = set()
    for step in range(2000):
        run.advance(step / 100)
        if run.loop.snapshot is not None:
            seen.add(run.loop.snapshot.now_s)
    return Counter(int(at_s) for at_s in seen)
