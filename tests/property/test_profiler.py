"""Laws of the profiler that hold for any input."""

import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compositions.capacity.costs import StageCost
from compositions.model import Composition, Group, Pattern
from control.objectives import objective_of
from profiler.drain import DrainEstimate
from profiler.drain_samples import Pending, SizeTrend, left_s, schedule_sample
from profiler.service_time import ServiceTimes, bottlenecks, free_service_s, next_bottleneck
from profiler.slo import Slo, SloError, SloStatus, parse_slo
from profiler.snapshot import LatencyStats, StageProfile, StageTiming
from profiler.stats import Samples, latency_stats, percentiles
from profiler.windows import mean_of_steps, rate_per_s

SECONDS = st.floats(1e-6, 1e3)
Pipeline = tuple[Composition, dict[str, StageCost], dict[str, int]]


@given(st.floats(0.02, 2000.0), st.floats(0.0, 0.999), st.floats(0.1, 30.0), st.integers(3, 300))
def test_a_regular_stream_is_exact_in_any_window(per_s: float, phase: float, window_s: float, count: int) -> None:
    events = Samples(1000)
    for i in range(count):
        events.add(i / per_s)
    now_s = (count - 1 + phase) / per_s
    assert rate_per_s(events, now_s, window_s=window_s, since_s=0.0) == pytest.approx(per_s, rel=1e-6)


@given(st.lists(st.floats(0.0, 100.0), max_size=60).map(sorted), st.floats(0.0, 200.0), st.floats(0.0, 100.0))
def test_a_rate_is_unknown_or_finite_and_not_below_zero(times_s: list[float], now_s: float, since_s: float) -> None:
    events = Samples(1000)
    for at_s in times_s:
        events.add(at_s)
    found = rate_per_s(events, now_s, window_s=10.0, since_s=since_s)
    assert found is None or 0.0 <= found < float("inf")


@given(st.lists(st.tuples(st.floats(0.0, 50.0), st.floats(0.0, 100.0)), min_size=1).map(sorted), st.floats(0.0, 60.0))
def test_the_offered_mean_lies_between_the_rates_offered(rows: list[tuple[float, float]], start_s: float) -> None:
    steps = Samples(1000)
    for at_s, per_s in rows:
        steps.add(at_s, per_s)
    mean = mean_of_steps(steps, start_s, 60.0)
    assert min(r for _, r in rows) - 1e-9 <= mean <= max(r for _, r in rows) + 1e-9


@given(st.lists(SECONDS, min_size=1, max_size=200), st.floats(0.5, 512.0))
def test_weights_that_are_equal_make_no_difference(latencies_s: list[float], weight: float) -> None:
    values = np.array(latencies_s)
    wanted = percentiles(values, None, (50, 95, 99))
    assert percentiles(values, np.full(len(values), weight), (50, 95, 99)) == pytest.approx(wanted, rel=1e-9)


@given(st.lists(st.tuples(SECONDS, st.integers(1, 500)), min_size=1, max_size=50))
def test_a_value_that_stands_for_many_weighs_as_many(rows: list[tuple[float, int]]) -> None:
    values, counts = np.array([value for value, _ in rows]), np.array([float(count) for _, count in rows])
    found, wanted = latency_stats(values, counts), latency_stats(np.repeat(values, counts.astype(int)))
    assert (found.samples, found.mean_s) == (wanted.samples, pytest.approx(wanted.mean_s))
    for each in (found, wanted):
        ordered = [values.min(), each.p50_s, each.p95_s, each.p99_s, values.max()]
        assert all(less <= more * (1 + 1e-9) for less, more in pairwise(ordered))


@given(st.integers(1, 200), st.floats(0.1, 1.5), st.integers(0, 1000))
def test_the_scatter_of_items_shows_in_that_of_their_bundles(items: int, cv: float, seed: int) -> None:
    random, times = np.random.default_rng(seed), ServiceTimes(["a"])
    for bundle in range(400):
        walls_s = random.gamma(1 / cv**2, cv**2 * 0.001, items)
        times.add(bundle * 0.01, (StageTiming("a", float(walls_s.sum()), 0.0),), items)
    [a] = times.profiles(4.0)
    assert a.samples == 400 * items
    assert a.cv == pytest.approx(cv, rel=0.5)


@given(st.lists(st.tuples(SECONDS, SECONDS), min_size=1, max_size=100))
def test_a_profile_lies_within_its_samples(walls_and_cpus: list[tuple[float, float]]) -> None:
    times = ServiceTimes(["a"])
    for i, (wall_s, cpu_s) in enumerate(walls_and_cpus):
        times.add(i * 0.01, (StageTiming("a", wall_s, cpu_s),))
    [a] = times.profiles(1.0)
    walls = [wall_s for wall_s, _ in walls_and_cpus]
    assert min(walls) * (1 - 1e-9) <= a.service_time_s <= max(walls) * (1 + 1e-9)
    assert a.samples == len(walls)
    assert a.cv >= 0
    assert a.busy >= 0


def ranked(profiles: list[StageProfile]) -> tuple[str, ...]:
    """The most intensive first; equal ones in the app's order."""
    return tuple(profile.name for profile in sorted(profiles, key=lambda p: -p.service_time_s))


def profiles(walls_s: list[float]) -> list[StageProfile]:
    return [StageProfile(f"s{i}", s, s, 0.0, s, s, 100) for i, s in enumerate(walls_s)]


@given(st.lists(SECONDS, min_size=1, max_size=8), st.floats(0.0, 2.0))
def test_a_tagged_stage_is_the_first_in_rank_and_scale_does_not_matter(walls_s: list[float], threshold: float) -> None:
    tagged = bottlenecks(profiles(walls_s), threshold)
    assert len(tagged) <= 1
    assert tagged == ranked(profiles(walls_s))[: len(tagged)]
    assert tagged == bottlenecks(profiles([8 * s for s in walls_s]), threshold)


@given(st.lists(SECONDS, min_size=1, max_size=8))
def test_tagging_goes_down_the_rank(walls_s: list[float]) -> None:
    tagged: list[str] = []
    while (stage := next_bottleneck(profiles(walls_s), tagged, 0.0)) is not None:
        tagged.append(stage)
    assert sorted(tagged) == sorted(p.name for p in profiles(walls_s))
    assert tuple(tagged) == ranked(profiles(walls_s))


@given(SECONDS, SECONDS, st.floats(1.0, 50.0))
def test_free_service_time_is_never_above_the_measured_one(wall_s: float, cpu_s: float, crowd: float) -> None:
    free_s = free_service_s(StageProfile("a", wall_s, cpu_s, 0.0, wall_s, wall_s, 9), crowd)
    assert min(wall_s, cpu_s) <= free_s <= wall_s
    assert free_service_s(StageProfile("a", wall_s, cpu_s, 0.0, wall_s, wall_s, 9), 1.0) == wall_s


@given(st.lists(SECONDS, min_size=1, max_size=100))
def test_the_drain_estimate_stays_within_its_samples(samples_s: list[float]) -> None:
    estimate = DrainEstimate.first(samples_s[0])
    for sample_s in samples_s[1:]:
        estimate = estimate.updated(sample_s)
    assert min(samples_s) * (1 - 1e-9) <= estimate.srtt_s <= max(samples_s) * (1 + 1e-9)
    assert estimate.bound_s >= estimate.srtt_s


@st.composite
def pipelines(draw: st.DrawFn) -> Pipeline:
    """What waits: nothing is in work yet."""
    names = [f"s{i}" for i in range(draw(st.integers(1, 5)))]
    groups = tuple(Group((name,), Pattern.PAR, draw(st.integers(1, 4))) for name in names)
    costs = {name: StageCost(draw(st.floats(1e-4, 2.0)), draw(st.floats(0.0, 2.0)), 0.0) for name in names}
    return Composition("c", groups), costs, {name: draw(st.integers(0, 6)) for name in names}


def waiting_items(positions: dict[str, int]) -> dict[str, list[Pending]]:
    return {stage: [Pending()] * count for stage, count in positions.items()}


@given(pipelines(), st.integers(1, 16))
def test_a_drain_takes_at_least_its_work_and_at_most_all_of_it_in_a_row(pipeline: Pipeline, cores: int) -> None:
    shape, costs, positions = pipeline
    found = schedule_sample(shape, waiting_items(positions), costs, cores=cores)
    if found is None:
        assert not sum(positions.values())
        return
    order = list(positions)
    runs = [(positions[stage], costs[later]) for at, stage in enumerate(order) for later in order[at:]]
    in_a_row, cpu = sum(n * cost.service_s for n, cost in runs), sum(n * cost.cpu_s for n, cost in runs)
    last = shape.groups[-1]
    waiting = max(0, sum(positions.values()) - last.replicas)
    assert found >= waiting * costs[last.stages[0]].service_s / last.replicas * (1 - 1e-9)
    assert found <= max(in_a_row, cpu) * (1 + 1e-9)


@given(SECONDS, st.floats(0.0, 3.0), SECONDS)
def test_what_is_left_of_a_task_is_never_negative_and_with_little_scatter_the_rest(mean_s, cv, age_s) -> None:
    assert left_s(mean_s, cv, age_s) >= -1e-9
    assert left_s(mean_s, 0.0, age_s) == pytest.approx(max(0.0, mean_s - age_s))


@given(st.floats(-2.0, 3.0), st.lists(st.integers(1, 10**7), min_size=20, max_size=60))
def test_a_power_law_between_size_and_time_is_found(exponent: float, sizes: list[int]) -> None:
    trend = SizeTrend()
    for size in sizes:
        trend.add(size, 0.01 * size**exponent)
    law = trend.law()
    if law is None:  # sizes or times that hardly differ
        assert abs(exponent) < 0.01 or max(sizes) < 2 * min(sizes) or len(set(sizes)) < 4
        return
    assert law.exponent == pytest.approx(exponent, rel=1e-3, abs=1e-3)
    assert law.factor(2 * sizes[0]) == pytest.approx(law.factor(sizes[0]) * 2**exponent, rel=1e-2)


@given(pipelines())
def test_an_item_more_at_the_source_end_never_shortens_a_drain(pipeline: Pipeline) -> None:
    shape, costs, positions = pipeline
    more = {**positions, "s0": positions["s0"] + 1}
    before = schedule_sample(shape, waiting_items(positions), costs, cores=4) or 0.0
    after = schedule_sample(shape, waiting_items(more), costs, cores=4)
    assert after >= before * (1 - 1e-9)


@given(st.floats(1e-3, 1e6), st.floats(0.0, 1.0), st.floats(0.0, 1e6))
def test_met_is_exactly_being_on_the_good_side_of_the_bound(target: float, threshold: float, value: float) -> None:
    at_most = objective_of(Slo("latency", target, threshold)).judge(LatencyStats(value / 1e3, 0, 0, 0, 1), None, None)
    at_least = objective_of(Slo("throughput", target, threshold)).judge(None, value, None)
    assert (at_most.status is SloStatus.MET) == (at_most.value <= at_most.bound)
    assert (at_least.status is SloStatus.MET) == (value >= at_least.bound)


@given(st.text(max_size=40) | st.from_regex(r"(latency|throughput)=[-+.e\d]{1,6}(ms|s|/s)?", fullmatch=True))
def test_any_text_is_an_slo_or_a_sentence(text: str) -> None:
    try:
        told = str(parse_slo(text).target)
    except SloError as refused:
        told = str(refused)
    assert re.search("accepted are|must be|is for throughput|^input_rate$", told) or float(told) > 0


@given(st.floats(1e-3, 1e9, allow_nan=False))
def test_what_is_written_is_read(target: float) -> None:
    assert parse_slo(f"latency={target!r}ms") == Slo("latency", target)
    assert parse_slo(f"throughput={target!r}/s") == Slo("throughput", target)
