"""Service-time profile: what counts, what fades, which stage is the bottleneck, and cores that others take. Rates and
windows: right for slow streams, absent before enough is known, zero when the stream has stopped."""

import math
from collections.abc import Iterable
from itertools import pairwise

import numpy as np
import pytest

from profiler.service_time import (
    GpuUse,
    ProfileSettings,
    ServiceTimes,
    bottlenecks,
    crowding,
    free_service_s,
    on_gpus,
    stage_costs,
)
from profiler.snapshot import RateWindow, StageProfile, StageTiming
from profiler.stats import Samples
from profiler.windows import input_rate_change, mean_of_steps, offered_windows, rate_per_s
from tests.support.figures import profile

Phase = tuple[list[float], float, float]


def profiles(**walls_s: float) -> list[StageProfile]:
    return [profile(name, wall_s) for name, wall_s in walls_s.items()]


def feed(times: ServiceTimes, stage: str, walls_s: list[float], *, from_s: float, every_s: float) -> float:
    for i, wall_s in enumerate(walls_s):
        times.add(from_s + i * every_s, (StageTiming(stage, wall_s, wall_s / 2),))
    return from_s + (len(walls_s) - 1) * every_s


def test_profile_gives_mean_cpu_cv_and_percentiles() -> None:
    times = ServiceTimes(["a"])
    now_s = feed(times, "a", [0.010, 0.020, 0.030, 0.040], from_s=0.0, every_s=0.1)
    [a] = times.profiles(now_s)
    assert (a.service_time_s, a.cpu_time_s, a.samples) == (pytest.approx(0.025), pytest.approx(0.0125), 4)
    assert a.cv == pytest.approx(math.sqrt(1.25e-4) / 0.025)
    assert a.p50_s == pytest.approx(0.025)
    assert a.p95_s == pytest.approx(0.0385)


@pytest.mark.parametrize(
    ("before", "after", "mean_s", "samples"),
    [
        (([0.010] * 100, 0.0, 0.1), ([0.050] * 100, 35.0, 0.1), 0.050, 100),
        (([0.010] * 1000, 0.0, 0.02), ([0.050] * 512, 20.0, 0.02), 0.050, 512),
        (([0.001] * 2000, 0.0, 0.001), ([0.009] * 100, 2.0, 0.001), 0.001 + 0.008 * 100 / 2000, 2000),
        (([9.0] * 10, 0.0, 60.0), ([1.0] * 8, 600.0, 60.0), 1.0, 8),
    ],
    ids=["by time", "by count at a high rate", "thousands a second over seconds", "once a minute"],
)
def test_an_old_phase_fades(before: Phase, after: Phase, mean_s: float, samples: int) -> None:
    """A phase: times, since when, and how far apart."""
    times = ServiceTimes(["a"])
    for walls_s, from_s, every_s in (before, after):
        now_s = feed(times, "a", walls_s, from_s=from_s, every_s=every_s)
    [a] = times.profiles(now_s)
    assert a.service_time_s == pytest.approx(mean_s, rel=0.01)
    assert a.samples == pytest.approx(samples, abs=2)


def test_memory_is_bounded_and_the_newest_stay() -> None:
    times = ServiceTimes(["a"], ProfileSettings(timings_kept=600))
    now_s = feed(times, "a", [float(i) for i in range(5000)], from_s=0.0, every_s=1e-4)
    [a] = times.profiles(now_s)
    assert 600 <= a.samples <= 1200
    assert a.service_time_s == pytest.approx(4999 - (a.samples - 1) / 2)


@pytest.mark.parametrize(
    ("walls_s", "expected"),
    [
        ({"a": 0.008, "b": 0.008, "c": 0.008}, ()),
        ({"a": 0.004, "b": 0.012, "c": 0.008}, ("b",)),
        ({"a": 0.020, "b": 0.024}, ("b",)),
        ({"a": 0.020, "b": 0.0239}, ()),
        ({"a": 0.024, "b": 0.024, "c": 0.001}, ()),
        ({"only": 0.5}, ("only",)),
        ({}, ()),
    ],
    ids=["balanced", "unbalanced", "exactly 20 %", "just below", "two alike", "one stage", "no profile"],
)
def test_bottleneck_is_20_percent_above_every_other(walls_s: dict[str, float], expected: tuple[str, ...]) -> None:
    assert bottlenecks(profiles(**walls_s)) == expected


def test_a_sleeping_stage_keeps_its_sleep_and_a_contended_one_loses_the_contention() -> None:
    cpu, sleeper = profile("cpu", 0.040, 0.020, busy=4.0), profile("sleep", 0.050, 0.0001, busy=3.0)
    costs = stage_costs([cpu, sleeper], cores=2)
    assert costs["cpu"].service_s == pytest.approx(0.020)
    assert costs["sleep"].service_s == pytest.approx(0.050, rel=0.01)
    assert [crowding([each], cores=2) for each in (cpu, sleeper)] == pytest.approx([2.0, 1.0])


def test_the_time_of_a_gpu_is_its_use_over_the_rate() -> None:
    calls = [profile("decode", 0.010, 0.010, busy=1.0), profile("embed", 0.040, 0.005, busy=4.0)]  # 100/s
    decode, embed = on_gpus(calls, GpuUse(["embed"], {"decode": 0.0, "embed": 0.25}, 1.0, 0.6))
    assert decode == calls[0]
    assert (embed.gpus, embed.gpu_s, embed.gpu_wait_s) == (0.25, pytest.approx(0.006), 0.0)
    cost = stage_costs([embed], cores=16)["embed"]
    assert (cost.service_s, cost.gpu_s, cost.gpus) == (0.040, pytest.approx(0.006), 0.25)


@pytest.mark.parametrize(
    ("cpu_s", "busy", "used", "gpu_s", "free_s"),
    [(0.005, 4.0, 1.0, 0.010, 0.015), (0.040, 4.0, 1.0, 0.010, 0.040), (0.005, 0.5, 7.9, 0.040, 0.040)],
    ids=["5 ms of a core, 10 of the GPU", "it spins while it waits", "others use the GPU too"],
)
def test_what_a_call_waits_for_a_gpu_that_is_used_up_is_not_its_own_time(
    cpu_s: float, busy: float, used: float, gpu_s: float, free_s: float
) -> None:
    (embed,) = on_gpus([profile("embed", 0.040, cpu_s, busy=busy)], GpuUse(["embed"], {"embed": 0.25}, 1.0, used))
    assert (embed.gpu_s, free_service_s(embed, 1.0)) == pytest.approx((gpu_s, free_s))


def events(rows: Iterable[tuple[float, ...]]) -> Samples:
    samples = Samples(10_000)
    for row in rows:
        samples.add(*row)
    return samples


def rate(times_s: Iterable[float], now_s: float, *, window_s: float = 10.0, since_s: float = 0.0) -> float | None:
    return rate_per_s(events((at_s,) for at_s in times_s), now_s, window_s=window_s, since_s=since_s)


def test_a_whole_window_without_any_event_is_zero() -> None:
    assert rate([], 9.9) is None
    assert rate([], 10.0) == 0.0


def test_a_stopped_stream_falls_to_zero_without_a_jump() -> None:
    times_s = [i / 3 for i in range(31)]
    seen = [rate(times_s, 10.0 + silent_s) for silent_s in (0.2, 1.0, 3.0, 6.0, 9.9, 10.1)]
    assert seen[0] == pytest.approx(3.0)
    assert all(later < earlier for earlier, later in pairwise(seen))
    assert seen[-2] < 0.5
    assert seen[-1] == 0.0


def test_a_slow_stream_is_not_taken_as_stopped() -> None:
    found = [rate([0.0, 20.0, 40.0, 60.0], now_s) for now_s in (79.0, 120.0, 141.0)]
    assert found[0] == pytest.approx(0.05)
    assert found[0] > found[1] > found[2] == 0.0


def test_items_let_go_together_do_not_inflate_the_rate() -> None:
    clumps = [float(second) for second in range(5) for _ in range(4)]
    assert [rate(clumps, 4.5, window_s=window_s) for window_s in (10.0, 0.25)] == pytest.approx([4.0, 4.0])


def test_offered_rate_before_it_was_set_is_left_out() -> None:
    offered = events([(5.0, 8.0)])
    assert mean_of_steps(offered, 0.0, 4.0) is None
    assert mean_of_steps(offered, 0.0, 10.0) == pytest.approx(8.0)
    assert mean_of_steps(offered, 10.0, 10.0) == pytest.approx(8.0)
    assert offered_windows(offered, (4.0, 5.0, 6.0)) == ()
    assert offered_windows(offered, (5.0, 6.0, 7.0)) == (RateWindow(8.0, 1.0), RateWindow(8.0, 1.0))


def windows(*rates: float, counted: bool = False) -> tuple[RateWindow, ...]:
    return tuple(RateWindow(per_s, 1.0, counted) for per_s in rates)


@pytest.mark.parametrize(
    ("before", "rates", "expected"),
    [
        *[(10.0, (12.1, 12.5), 12.5), (10.0, (7.9, 7.0), 7.0), (0.0, (3.0, 3.0), 3.0), (3.0, (0.0, 0.0), 0.0)],
        *[(10.0, (12.0, 12.0), None), (10.0, (10.0, 15.0), None), (10.0, (15.0, 5.0), None)],
    ],
)
def test_a_rate_changed_if_both_windows_say_so(before: float, rates: tuple[float, ...], expected: float | None) -> None:
    assert input_rate_change(before, windows(*rates)) == expected


def test_the_scatter_of_counted_random_arrivals_is_no_change() -> None:
    rng = np.random.default_rng(3)
    pairs = rng.poisson(10.0, size=(4000, 2))
    alarms = sum(input_rate_change(10.0, windows(*pair, counted=True)) is not None for pair in pairs.tolist())
    uncounted = sum(input_rate_change(10.0, windows(*pair)) is not None for pair in pairs.tolist())
    assert alarms <= 4
    assert uncounted > 200
    assert input_rate_change(10.0, windows(20.0, 21.0, counted=True)) == 21.0


def test_samples_of_a_slow_stream_do_not_pile_up_to_the_bound_of_a_fast_one() -> None:
    samples = Samples(32_768, keep_s=20.0)
    most = 0
    for i in range(100_000):
        samples.add(i / 100)  # 100/s: 2,000 rows in twenty seconds
        most = max(most, len(samples))
    assert most <= 4_100
    assert samples.at(0) <= samples.at(-1) - 20.0
    for i in range(100_000):
        samples.add(1000 + i / 10_000)
        most = max(most, len(samples))
    assert 32_768 <= most <= 65_536


CORES = 10
ALONE_S = {"read": 0.05, "detect": 0.10, "draw": 0.05}
"""CPU time of each; 15 items/s take three cores."""
RATE_PER_S = 15


def timed(
    times: ServiceTimes, from_s: float, stretch: dict[str, float], *, rate: float = RATE_PER_S, waits_s: float = 0.0,
    cores: int = CORES,
) -> float:  # fmt: skip
    """5 s of items of which each stage takes so many times its CPU time, and waits besides, while others queue; when
    the last came back."""
    now_s = from_s
    for number in range(int(5 * rate)):
        now_s = from_s + (number + 1) / rate
        times.add(now_s, [StageTiming(s, cpu * stretch.get(s, 1.0) + waits_s, cpu) for s, cpu in ALONE_S.items()])
        if number % 4 == 0:
            times.cores_left(now_s, cores, waiting=True)
    return now_s


def all_stages(stretch: float) -> dict[str, float]:
    return dict.fromkeys(ALONE_S, stretch)


def in_vain() -> tuple[ServiceTimes, float]:
    """Half as many workers more, and each gets as much less: what came of it."""
    times = ServiceTimes(list(ALONE_S))
    return times, timed(times, timed(times, timed(times, 0.0, {}), all_stages(1.5)), all_stages(2.0))


def test_where_more_workers_bring_no_more_others_have_the_cores() -> None:
    times, now_s = in_vain()
    assert times.cores_left(now_s, CORES, waiting=True) == 4, "the three that it gets, and one to see if there are more"
    known = {profile.name: profile.service_time_s for profile in times.profiles(now_s)}
    assert list(known) == list(ALONE_S), "in the order of the app"
    assert known == pytest.approx(ALONE_S), "what others took is no service time"


def test_who_gets_more_with_more_workers_is_not_short_of_cores() -> None:
    times = ServiceTimes(list(ALONE_S))
    now_s = timed(times, timed(times, 0.0, {}), all_stages(2.0), rate=RATE_PER_S / 2)
    now_s = timed(times, now_s, all_stages(2.0))
    assert times.cores_left(now_s, CORES, waiting=True) is None, "twice as many got twice as much: a fair share"


@pytest.mark.parametrize("waits_s", [0.2, 0.5, 2.0])
def test_stages_that_begin_to_wait_for_the_same_are_not_short_of_cores(waits_s: float) -> None:
    times = ServiceTimes(list(ALONE_S))
    now_s, told = timed(times, 0.0, {}), []
    for workers in (3, 4, 6, 8):  # as many as are busy: each brings what the others do, little as that is
        now_s = timed(times, now_s, {}, rate=workers / (0.2 + 3 * waits_s), waits_s=waits_s)
        told.append(times.cores_left(now_s, CORES, waiting=True))
    assert told == [None] * 4, "a disk or a server became slow, and more workers help"


def test_the_cores_are_back_when_nothing_is_stretched_any_more() -> None:
    times, now_s = in_vain()
    now_s = timed(times, now_s, {})
    assert times.cores_left(now_s, CORES, waiting=False) is None
    known = {profile.name: profile.service_time_s for profile in times.profiles(now_s)}
    assert known == pytest.approx(ALONE_S), "and what was timed meanwhile is still not mistaken"


@pytest.mark.parametrize(
    ("why", "stretch", "waits_s", "cores"),
    [
        ("one stage alone has begun to wait", {"detect": 1.5}, 0.0, CORES),
        ("stages that always waited tell nothing", all_stages(1.5), 0.1, CORES),
        ("its own workers share its own cores", all_stages(1.5), 0.0, 3),
        ("of four cores three and one are all", all_stages(1.5), 0.0, 4),
    ],
)
def test_what_does_not_tell_of_others(why: str, stretch: dict[str, float], waits_s: float, cores: int) -> None:
    times, now_s = ServiceTimes(list(ALONE_S)), 0.0
    for each in ({}, stretch, {stage: 4 / 3 * by for stage, by in stretch.items()}):
        now_s = timed(times, now_s, each, waits_s=waits_s, cores=cores)
    assert times.cores_left(now_s, cores, waiting=True) is None, why
