"""The benchmark of predictions with bundles on a few of its settings: the floor below which something is broken."""

from __future__ import annotations

import statistics
from dataclasses import replace

import pytest

from lab.benchmarks.bundle_predictions import LIMIT, Outcome, drawn, measured

SEEDS = (1, 3, 6, 7, 8, 10)


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    return [measured(drawn(seed)) for seed in SEEDS]


def test_throughput_and_latency_are_as_predicted(outcomes: list[Outcome]) -> None:
    assert statistics.median(each.throughput_error for each in outcomes) <= LIMIT
    assert statistics.median(each.latency_error for each in outcomes) <= LIMIT


def test_a_stream_that_does_not_linger_is_told_what_its_largest_bundles_carry() -> None:
    outcome = measured(replace(drawn(13), gathered=True))  # one by one it would be overloaded
    assert outcome.throughput_error <= 0.15
    assert not outcome.told.overloaded


def test_bundles_are_of_all_kinds(outcomes: list[Outcome]) -> None:
    assert min(each.setting.items for each in outcomes) < 5
    assert max(each.setting.items for each in outcomes) > 20
