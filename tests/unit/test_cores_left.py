"""Cores that others take, told by the timings of the app's own stages."""

import pytest

from profiler.service_time import ServiceTimes
from profiler.snapshot import StageTiming

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
