"""Cores that others take, told by the timings of the app's own stages."""

from __future__ import annotations

import pytest

from profiler.service_time import ServiceTimes
from profiler.snapshot import StageTiming

CORES = 10
ALONE_S = {"read": 0.05, "detect": 0.10, "draw": 0.05}
"""CPU time of each; 15 items/s take three cores."""
RATE_PER_S = 15


def worked(stretch: dict[str, float], *, waits_s: float = 0.0, cores: int = CORES) -> tuple[ServiceTimes, float]:
    """What was timed of a wave of items alone on the cores, and then for 5 s with each stage so many times as long."""
    times, now_s = ServiceTimes(list(ALONE_S)), 0.0
    for factors in (dict.fromkeys(ALONE_S, 1.0), stretch):
        for _ in range(5 * RATE_PER_S):
            now_s += 1 / RATE_PER_S
            timings = [StageTiming(s, cpu_s * factors.get(s, 1.0) + waits_s, cpu_s) for s, cpu_s in ALONE_S.items()]
            times.add(now_s, timings)
            if round(now_s * RATE_PER_S) % 4 == 0:
                times.cores_left(now_s, cores)
    return times, now_s


def test_where_all_that_computes_takes_longer_others_have_the_cores() -> None:
    times, now_s = worked(dict.fromkeys(ALONE_S, 2.0))
    assert times.cores_left(now_s, CORES) == 4, "the three that it gets, and one to see when there are more"
    known = {profile.name: profile.service_time_s for profile in times.profiles(now_s)}
    assert known == pytest.approx(ALONE_S), "what others took is no service time"


def test_the_cores_are_back_when_nothing_is_stretched_any_more() -> None:
    times, now_s = worked(dict.fromkeys(ALONE_S, 2.0))
    for step in range(3 * RATE_PER_S):
        times.add(now_s + step / RATE_PER_S, [StageTiming(s, cpu_s, cpu_s) for s, cpu_s in ALONE_S.items()])
    assert times.cores_left(now_s + 3.0, CORES) is None
    known = {profile.name: profile.service_time_s for profile in times.profiles(now_s + 3.0)}
    assert known == pytest.approx(ALONE_S), "and what was timed meanwhile is still not mistaken"


def test_what_nobody_tells_of_any_more_is_not_believed_for_ever() -> None:
    times, now_s = worked(dict.fromkeys(ALONE_S, 2.0))
    assert times.cores_left(now_s + 5.0, CORES) == 4
    assert times.cores_left(now_s + 60.0, CORES) is None


@pytest.mark.parametrize(
    ("why", "stretch", "waits_s", "cores"),
    [
        ("one stage alone has begun to wait", {"detect": 2.0}, 0.0, CORES),
        ("a little longer is chance", dict.fromkeys(ALONE_S, 1.2), 0.0, CORES),
        ("stages that always waited tell nothing", dict.fromkeys(ALONE_S, 2.0), 0.1, CORES),
        ("its own workers share its own cores", dict.fromkeys(ALONE_S, 2.0), 0.0, 3),
    ],
)
def test_what_does_not_tell_of_others(why: str, stretch: dict[str, float], waits_s: float, cores: int) -> None:
    times, now_s = worked(stretch, waits_s=waits_s, cores=cores)
    assert times.cores_left(now_s, cores) is None, why
