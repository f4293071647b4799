"""Items that travel together: closed by count, bytes or age."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.contract import App
from apps.rates import Fixed
from compositions.batching import Batching, BundleLimits
from compositions.model import Composition, Group, Stage
from control.settings import Measuring, Settings
from datapipe.source_kinds import open_source
from datapipe.sources.gathering import Gathering, _due
from datapipe.sources.pacing import FrequencyManager
from datapipe.sources.portions import Portion, Portions, weight_bytes
from datapipe.sources.push import Push
from datapipe.sources.sources import reader_of
from lab.simulation.machine import Machine
from lab.simulation.scenario import Scenario, SimulatedStage
from lab.simulation.simulation import simulate
from profiler.snapshot import LatencyFrom


class Numbers(App):
    name = "numbers"
    stages = (Stage("one"),)

    def items(self, path: Path | None) -> Iterator[int]:
        return iter(range(10))


class Time:
    """Moves when someone waits."""

    now_s = 0.0

    def clock(self) -> float:
        return self.now_s

    def wait(self, seconds: float) -> bool:
        self.now_s += seconds
        return False


@pytest.fixture
def time() -> Time:
    return Time()


def gathering(source: Any, time: Time, rate_per_s: float | None, limits: BundleLimits) -> Gathering:
    pattern = None if rate_per_s is None else Fixed(rate_per_s)
    pacing = FrequencyManager(pattern, clock=time.clock, wait=time.wait, catch_up_s=10.0)
    return Gathering(reader_of(source), pacing, time.clock, limits)


def bundles(gathered: Gathering, most: int = 100) -> list[list[Any]]:
    found = []
    while most and (portion := gathered.next(most)) is not None:
        assert len(portion.values) == len(portion.arrived_s) == len(portion.due_s or ())
        found.append(portion.values)
        most -= len(portion.values)
    return found


def numbers(time: Time) -> Any:
    return open_source(Numbers(), "replay", clock=time.clock, loop=False)


@pytest.mark.parametrize(
    ("rate_per_s", "limits", "most", "expected"),
    [
        pytest.param(None, BundleLimits(items=4), 100, [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]], id="unpaced"),
        pytest.param(10.0, BundleLimits(items=4), 3, [[0], [1], [2]], id="what is not due is not waited for"),
        pytest.param(10.0, BundleLimits(items=2, linger_s=60.0), 4, [[0, 1], [2, 3]], id="what is full does not wait"),
    ],
)
def test_a_bundle_has_what_is_due(rate_per_s: float | None, limits: BundleLimits, most: int, expected: object) -> None:
    time = Time()
    assert bundles(gathering(numbers(time), time, rate_per_s, limits), most) == expected


def test_what_became_due_meanwhile_travels_together_and_knows_since_when(time: Time) -> None:
    gathered = gathering(numbers(time), time, 10.0, BundleLimits(items=8))
    gathered.next(100)
    time.now_s = 0.35  # it was held back: the second, third and fourth are due
    portion: Any = gathered.next(100)
    assert portion.values == [1, 2, 3]
    assert portion.due_s == pytest.approx((0.1, 0.2, 0.3))
    assert portion.arrived_s == (0.35,) * 3


def test_the_first_item_waits_no_longer_than_asked_for_others(time: Time) -> None:
    gathered = gathering(numbers(time), time, 10.0, BundleLimits(items=8, linger_s=0.25))
    portion: Any = gathered.next(100)
    assert (portion.values, portion.due_s) == ([0, 1, 2], pytest.approx((0.0, 0.1, 0.2)))
    assert time.now_s <= 0.25


def test_what_is_pushed_is_taken_as_far_as_it_is_there(time: Time) -> None:
    source = Push(10, clock=time.clock)
    gathered = gathering(source, time, None, BundleLimits(items=3))
    for value in range(5):
        source.put(value)
    source.close()
    assert bundles(gathered) == [[0, 1, 2], [3, 4]]
    assert source.offer().behind == 0


def test_more_than_so_many_bytes_do_not_travel_together(time: Time) -> None:
    source = Push(10, clock=time.clock)
    for size in [10, 10, 10, 50, 5, 5, 200, 10]:
        source.put(np.zeros(size, np.uint8))
    source.close()
    found = bundles(gathering(source, time, None, BundleLimits(items=100, max_bytes=60)))
    assert [[array.nbytes for array in bundle] for bundle in found] == [[10, 10, 10], [50, 5, 5], [200], [10]]


def test_a_source_that_fails_gives_what_it_read_before() -> None:
    def failing() -> Iterator[int]:
        yield from range(5)
        raise ValueError("the disk is gone")

    portions = Portions(failing(), lambda: 0.0)
    first: Any = portions.next(100, 1.0)
    assert first.values == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="disk"):
        portions.next(100, 1.0)


@given(st.lists(st.integers(1, 9), max_size=20), st.integers(1, 50))
def test_nothing_is_lost_doubled_or_misordered(sizes: list[int], count: int) -> None:
    wanted = iter(sizes + [3] * 100)
    portions = Portions(iter(range(count)), Time().clock)
    found: list[int] = []
    while (portion := portions.next(next(wanted), 1.0)) is not None:
        found += portion.values
    assert found == list(range(count))


def test_what_weighs_is_counted_one_level_down() -> None:
    assert [weight_bytes(each) for each in ([1, 2.5, None], [np.zeros(1000)], ["x" * 100])] == [24, 8000, 100]
    assert weight_bytes([{"frame": np.zeros(1000), "number": 1}]) > 8000


@pytest.mark.parametrize("linger_s", [0.0, 60.0])
@pytest.mark.parametrize("rate_per_s", [None, 100.0])
def test_no_more_is_read_than_may_travel_together(rate_per_s: float | None, linger_s: float) -> None:
    time, read = Time(), count()
    frames = (np.zeros(10_000, np.uint8) for _ in read)
    source = SimpleNamespace(read=Portions(frames, time.clock).next, at_hand=lambda until_s: True)
    limits = BundleLimits(items=1000, max_bytes=45_000, linger_s=linger_s)
    gathered, out = gathering(source, time, rate_per_s, limits), 0
    for _ in range(10):
        portion: Any = gathered.next(1000)
        out += len(portion.values)
    assert next(read) == out, "what is read travels at once"
    assert out == 10 if linger_s == 0 and rate_per_s else out == 40


def test_the_first_item_waits_no_longer_for_a_slow_second_one_than_others_do(time: Time) -> None:
    def slow() -> Iterator[int]:
        for number in range(10):
            time.now_s += 1.0
            yield number

    source = SimpleNamespace(read=Portions(slow(), time.clock).next, at_hand=lambda until_s: True)
    assert bundles(gathering(source, time, None, BundleLimits(items=9))) == [[number] for number in range(10)]


@given(st.lists(st.floats(0, 9), min_size=1).map(sorted), st.lists(st.floats(0, 9), min_size=1).map(sorted))
def test_an_item_is_due_at_its_turn_or_when_it_was_read(turns: list[float], arrived_s: list[float]) -> None:
    arrived_s = arrived_s[: len(turns)]  # turns that found no item are more than items
    due_s = _due(Portion(list(arrived_s), tuple(arrived_s)), turns).due_s
    assert due_s == tuple(map(min, turns, arrived_s))


CHAIN = Composition("chain", (Group(("a",)), Group(("b",))))


def test_simulated_items_that_linger_leave_when_the_time_is_over_or_the_bundle_is_full() -> None:
    stages = (SimulatedStage("a", 200e-6), SimulatedStage("b", 200e-6))
    due = Settings(measuring=Measuring(latency_from=LatencyFrom.DUE))
    for most, expected_s in ((64, 0.05), (3, 0.02)):  # the first of three waits for two more, 10 ms apart
        how: dict[str, Any] = {"settings": due, "batching": Batching(most, linger_ms=50.0), "duration_s": 2.5}
        trace = simulate(Scenario(stages, (CHAIN,), rate=Fixed(100.0), machine=Machine(cores=4), **how))
        late_s = [item.latency_s for item in trace.delivered if item.at_s > 2.0]
        assert max(late_s) == pytest.approx(expected_s, abs=0.005)
        assert trace.in_order
