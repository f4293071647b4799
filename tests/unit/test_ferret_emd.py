"""The Earth Mover's Distance against OpenCV's, and what a distance must obey."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from apps.ferret.loops.emd import distances, transport_cost
from apps.ferret.loops.kernels import KernelName, load_kernel

Regions = tuple[NDArray[Any], NDArray[Any]]


def regions(random: np.random.Generator, count: int) -> Regions:
    weights = random.random(count).astype(np.float32) + np.float32(0.01)
    return weights / weights.sum(), (random.standard_normal((count, 14)) * 2).astype(np.float32)


def distance(a: Regions, b: Regions, name: KernelName = "exact") -> float:
    kernel = load_kernel(name)
    arrays = [part.astype(float).ravel() for part in (*a, *b)]
    result = kernel.sequence(np.zeros(1))
    kernel.distances(*map(kernel.sequence, arrays), kernel.sequence(np.array([0, len(b[0])])), result)
    return float(result[0])


@pytest.mark.parametrize("seed", range(25))
def test_it_agrees_with_opencv_and_between_kernels_to_the_last_bit(seed: int) -> None:
    random = np.random.default_rng(seed)
    a, b = regions(random, int(random.integers(1, 36))), regions(random, int(random.integers(1, 36)))
    wanted, _, _ = cv2.EMD(np.column_stack(a), np.column_stack(b), cv2.DIST_L2)
    assert distance(a, b) == pytest.approx(wanted, rel=5e-6)
    assert distance(a, b, "fast") == distance(a, b)


@given(st.integers(0, 10_000))
@settings(max_examples=30, deadline=None)
def test_it_is_a_metric(seed: int) -> None:
    random = np.random.default_rng(seed)
    a, b, c = (regions(random, int(random.integers(1, 8))) for _ in range(3))
    assert distance(a, a) == 0
    assert distance(a, b) == pytest.approx(distance(b, a), rel=1e-9)
    assert distance(a, c) <= distance(a, b) + distance(b, c) + 1e-9


def test_several_sets_are_measured_in_one_call() -> None:
    random = np.random.default_rng(7)
    one, others = regions(random, 5), [regions(random, count) for count in (3, 1, 6)]
    weights = np.concatenate([weights for weights, _ in others]).astype(float).tolist()
    features = np.concatenate([features for _, features in others]).astype(float).ravel().tolist()
    results = [0.0] * 3
    distances(
        one[0].astype(float).tolist(), one[1].astype(float).ravel().tolist(), weights, features, [0, 3, 4, 10], results
    )
    assert results == [distance(one, other) for other in others]


def test_a_later_row_takes_back_what_an_earlier_one_has_sent() -> None:
    # The first row's cheapest column is the only cheap one of the second row: 0.5·2 + 0.5·1, not 0.5·1 + 0.5·9.
    assert transport_cost([0.5, 0.5], [0.5, 0.5], [1.0, 2.0, 1.0, 9.0]) == 1.5


def test_equal_costs_and_equal_masses_end() -> None:
    share = [1 / 8] * 8
    assert transport_cost(share.copy(), share.copy(), [1.0] * 64) == 1.0
