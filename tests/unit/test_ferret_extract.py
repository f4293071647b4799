"""Features of regions that are simple enough to know them."""

from __future__ import annotations

from math import log, sqrt

import numpy as np
import pytest

from apps.ferret.extract import FEATURE_WEIGHTS, colour_moments, extract, region_weights
from apps.ferret.loops.emd import grow_box
from apps.ferret.loops.kernels import load_kernel

EXACT = load_kernel("exact")


def pixels_of(rows: range, columns: range) -> list[int]:
    return [row * 128 + column for row in rows for column in columns]


def test_the_features_of_a_rectangle() -> None:
    labels = np.zeros((128, 128), np.uint16)
    labels[10:30, 20:100] = 1
    hsv = np.zeros((128, 128, 3), np.uint8)
    hsv[10:30, 20:100] = (51, 102, 255)
    weights, features = extract(hsv, labels, EXACT)
    wanted = [0.2, 0, 0, 0.4, 0, 0, 1, 0, 0, log(80 / 20), 1, log(1600), 19, 59]
    assert features[1] / FEATURE_WEIGHTS == pytest.approx(wanted, rel=1e-6)
    around = sqrt(128 * 128 - 1600)
    assert weights == pytest.approx([around / (around + 40), 40 / (around + 40)], rel=1e-6)


def test_moments_agree_with_their_definitions() -> None:
    colours = np.random.default_rng(4).integers(0, 256, (700, 3)).astype(np.float32)
    apart = colours.astype(float) - colours.mean(axis=0, dtype=float)
    spread, lean = np.sqrt((apart**2).mean(axis=0)), np.cbrt((apart**3).mean(axis=0))
    wanted = np.stack((colours.mean(axis=0), spread, lean), axis=1) / 255
    assert colour_moments(colours) == pytest.approx(wanted, abs=1e-4)


def test_the_box_of_a_filled_rectangle_is_the_rectangle() -> None:
    assert grow_box(pixels_of(range(5, 9), range(30, 41)), 128) == (5, 8, 30, 40, 44)


def test_a_few_outliers_do_not_widen_the_box() -> None:
    body = pixels_of(range(60, 80), range(60, 80))
    # The first pixel of the body is still taken into the outlier's box, found too sparse, and set aside with it.
    assert grow_box([3, *body], 128) == (60, 79, 60, 79, 399)


def test_many_outliers_do() -> None:
    blob, body = pixels_of(range(5), range(10)), pixels_of(range(100, 110), range(100, 110))
    assert grow_box(blob + body, 128) == (0, 109, 0, 109, 150)


def test_a_box_filled_to_exactly_15_percent_goes_on_growing() -> None:
    first, second, third = 0, 1, 128 + 9  # the third makes a box of 2×10 that 3 of 20 pixels fill
    fourth = 5 * 128 + 9
    assert grow_box([first, second, third, fourth], 128) == (0, 5, 0, 9, 4)


def test_region_weights_are_shares_of_the_square_roots() -> None:
    sizes = np.array([100, 400, 15884])
    total = 10 + 20 + sqrt(15884)
    assert region_weights(sizes) == pytest.approx([10 / total, 20 / total, sqrt(15884) / total], rel=1e-6)


def test_both_kernels_extract_the_same_features() -> None:
    random = np.random.default_rng(5)
    labels = random.integers(0, 6, (16, 16)).astype(np.uint16).repeat(8, 0).repeat(8, 1)
    hsv = random.integers(0, 256, (128, 128, 3), dtype=np.uint8)
    for plain, compiled in zip(extract(hsv, labels, EXACT), extract(hsv, labels, load_kernel("fast")), strict=True):
        assert (plain == compiled).all()
