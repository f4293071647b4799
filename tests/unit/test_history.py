"""Samples of a running app: one a second, bounded."""

from __future__ import annotations

from itertools import pairwise

import pytest

from apps import registry
from control.decisions import State
from service.runner.rpc.requests import ReadHistory
from service.runner.telemetry.record import KEPT_S, History
from service.schemas.base import plain
from service.schemas.spec import RunSpec
from service.schemas.status import Rates, Sample, resting

UNKNOWN = Sample.of(resting(registry.find("synthetic"), State.STARTING, RunSpec(app="synthetic"), None), "0")


def sample(at_s: float) -> Sample:
    return UNKNOWN.model_copy(update={"at": str(at_s)})


def filled(seconds: float, step_s: float) -> History:
    history = History()
    for k in range(int(seconds / step_s)):
        history.record(k * step_s, lambda k=k: sample(k * step_s))  # type: ignore[misc]
    return history


def test_one_sample_a_second_however_often_it_is_asked() -> None:
    samples = filled(10, 0.25).since(0)
    assert [float(each.at) for each in samples] == [float(k) for k in range(10)]


def test_after_a_pause_the_pace_is_the_same_again() -> None:
    history = History()
    for at_s in (0.0, 50.0, 50.5, 51.0, 51.5, 52.0):
        history.record(at_s, lambda at_s=at_s: sample(at_s))  # type: ignore[misc]
    assert [float(each.at) for each in history.since(0)] == [0.0, 50.0, 51.0, 52.0]


def test_only_what_is_asked_for_and_never_more_than_an_hour() -> None:
    history = filled(KEPT_S + 500, 1.0)
    assert len(history.since(0)) == KEPT_S
    assert [float(each.at) for each in history.since(KEPT_S + 490)] == [float(KEPT_S + k) for k in range(490, 500)]


def test_what_was_not_measured_stays_unknown() -> None:
    assert UNKNOWN.composition is None
    assert (UNKNOWN.latency_ms.mean, UNKNOWN.latency_ms.p95) == (None, None)
    assert UNKNOWN.service_time_ms == {"f1": None, "f2": None, "f3": None}


@pytest.mark.parametrize(("count", "most"), [(0, 5), (1, 5), (5, 5), (6, 5), (300, 100), (301, 100), (899, 2)])
def test_of_many_samples_evenly_many_are_told_the_latest_among_them(count: int, most: int) -> None:
    samples = filled(count, 1.0).since(0)
    told = ReadHistory(300.0, most).thin(samples)
    assert len(told) <= most
    assert told[-1:] == samples[-1:]
    times = [float(each.at) for each in told]
    assert len({later - earlier for earlier, later in pairwise(times)}) <= 1
    assert ReadHistory(300.0).thin(samples) == samples


def test_rates_are_columns_and_where_nothing_is_known_empty() -> None:
    known = sample(7.0).model_copy(update={"offered_per_s": 10.0, "throughput_per_s": 9.0})
    assert plain(Rates.of("a", [known])) == {
        "app": "a",
        "at": ["7.0"],
        "offered_per_s": [10.0],
        "delivered_per_s": [9.0],
    }
    assert plain(Rates.of("a", [])) == {"app": "a", "at": [], "offered_per_s": [], "delivered_per_s": []}
