"""Check the bundle size that is chosen by default, also if a call of a batch stage has a fixed cost."""

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compositions.batching import Batching
from compositions.model import Composition, Group, Pattern
from compositions.settings import SettingsError
from control.bundles.bundle_size import MOST_ITEMS, grain_of
from control.bundles.curve import Curve
from lab.simulation.machine import Machine
from lab.simulation.scenario import Scenario, SimulatedStage, steps
from lab.simulation.simulation import SimulatedRun
from profiler.slo import Slo
from profiler.snapshot import StageProfile, StageTiming
from tests.support.figures import profile

STAGES = ("a", "b", "c", "d")
MERGED = Composition("1", (Group(STAGES),))
CHAIN = Composition("4", tuple(Group((stage,)) for stage in STAGES))
HOP_S = 100e-6


def profiles(each_s: float) -> tuple[StageProfile, ...]:
    return tuple(profile(stage, each_s) for stage in STAGES)


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
    assert (found.items, found.reason) == (1, "no stage was measured yet")


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


SPLIT = Composition("split", (Group(("read",)), Group(("infer",))))
TOGETHER = Composition("merged", (Group(("read", "infer")),))
ALONE = Composition("one", (Group(("infer",)),))
INFER = profile("infer", 1e-3)


class Stream:
    """A stream that is always full: each turn, ten bundles of the size that the curve says."""

    def __init__(self, call_s: Callable[[int], float], composition: Composition, read_s: float = 0.0) -> None:
        self.call_s, self.composition, self.read_s = call_s, composition, read_s
        self.curve, self.now_s, self.used = Curve({"infer"}), 0.0, [1]
        self.most = MOST_ITEMS  # items that come in time for a bundle

    def turn(self) -> None:
        size = min(self.used[-1], self.most)
        for _ in range(10):
            self.curve.timed(self.now_s, [StageTiming("infer", self.call_s(size), 0.0)], size)
        self.now_s += 0.25
        each_s = {"read": self.read_s, "infer": self.call_s(size) / size}
        profiles = [profile(name, time_s) for name, time_s in each_s.items()]
        self.used.append(self.curve.size(self.now_s, self.composition, profiles, 100e-6).items)

    def settled(self, turns: int = 40) -> int:
        for _ in range(turns):
            self.turn()
        return self.used[-1]

    def rate(self, size: int) -> float:
        """Items a second of the heaviest group, with bundles of this size."""
        infer_s = (self.call_s(size) + 100e-6) / size
        return 1 / (infer_s + self.read_s if len(self.composition.groups) == 1 else max(infer_s, self.read_s + 1e-9))


@given(st.floats(0, 20e-3), st.floats(20e-6, 5e-3), st.sampled_from([SPLIT, TOGETHER]))
def test_the_rate_is_within_three_percent_of_the_best_size(fixed_s: float, each_s: float, form: Composition) -> None:
    stream = Stream(lambda size: fixed_s + each_s * size, form)
    settled = stream.settled()
    larger = [2**power for power in range(1, MOST_ITEMS.bit_length())]
    bearable = [each for each in larger if 2 * (stream.call_s(each // 2) + 100e-6) <= 0.25]  # two calls of half of it
    assert stream.rate(settled) >= 0.97 * max(map(stream.rate, [1, *bearable]))


def test_a_size_that_the_device_is_best_with_is_found_where_more_is_slower() -> None:
    stream = Stream(lambda size: 2e-3 + 50e-6 * size + (1e-3 * (size - 64) if size > 64 else 0.0), SPLIT)
    assert stream.settled() == 64
    assert max(stream.used) == 128


def test_a_size_that_bundles_do_not_reach_is_left_and_tried_again_after_a_minute() -> None:
    stream = Stream(lambda size: 10e-3 + 10e-6 * size, SPLIT)
    stream.most = 100
    assert stream.settled(turns=100) == 64
    assert max(stream.used) == 128
    assert stream.used[-15:] == [64] * 15
    stream.most = MOST_ITEMS
    assert stream.settled(turns=400) > 128


def test_bundles_that_were_on_their_way_and_other_stages_end_no_trial() -> None:
    curve = Curve({"infer"})

    def size(at_s: float, calls: int, stage: str = "infer") -> int:
        for _ in range(calls):
            curve.timed(at_s, [StageTiming(stage, 1e-3, 0.0)], 1)
        return curve.size(at_s, ALONE, [INFER], 0.0).items

    assert size(0.0, 8) == 2
    assert size(1.0, 200) == 2
    assert size(11.0, 0) == 1

    curve.forget()
    assert size(20.0, 8) == 2
    assert size(31.0, 200, "read") == 2


def test_what_the_rest_of_a_group_takes_counts_beside_it() -> None:
    """A group that reads for 10 ms an item has nothing of a launch that costs 0.1 ms less."""
    alone = Stream(lambda size: 200e-6 + 10e-6 * size, SPLIT, read_s=10e-3)
    merged = Stream(lambda size: 200e-6 + 10e-6 * size, TOGETHER, read_s=10e-3)
    assert merged.settled() <= 4 < alone.settled()


def test_a_change_of_the_costs_is_found_within_a_minute() -> None:
    stream = Stream(lambda size: 10e-3 + 100e-6 * size, SPLIT)
    large = stream.settled()
    stream.call_s = lambda size: 0.4e-3 + 400e-6 * size
    small = stream.settled(turns=4 * 400)
    assert stream.rate(small) >= 0.97 * stream.rate(large)
    assert small < large


def test_nothing_is_tried_for_stages_that_take_one_item_after_the_other() -> None:
    curve = Curve(())
    for _ in range(20):
        curve.timed(0.0, [StageTiming("infer", 1.0, 1.0)], 1)
    assert curve.size(1.0, ALONE, [profile("infer", 1.0)], 1e-3).items == 1


def test_a_size_is_known_from_eight_calls_on_and_the_first_one_does_not_count() -> None:
    curve = Curve({"infer"})
    for call, expected in enumerate([1] * 7 + [2]):
        curve.timed(0.0, [StageTiming("infer", 1e-3 if call else 5.0, 0.0)], 1)
        assert curve.size(0.0, ALONE, [INFER], 0.0).items == expected
    assert "1 ms per item" in curve.size(0.0, ALONE, [INFER], 0.0).reason


@pytest.mark.parametrize("gone_s", [61.0, 600.0])
def test_what_was_measured_long_ago_tells_nothing(gone_s: float) -> None:
    curve = Curve({"infer"})
    for _ in range(8):
        curve.timed(0.0, [StageTiming("infer", 1e-3, 0.0)], 1)
    assert curve.size(gone_s, ALONE, [INFER], 0.0).items == 1
